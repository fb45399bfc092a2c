// The collectives: one row each, which stands in the file of its algorithm.
#pragma once

#include <cstdint>
#include <span>

#include "collectives/collective.h"
#include "core/preset.h"

namespace sparsecoll {

// Whose values are in an entry of the sum.
enum class Contributors {
  kUnknown,  // more than one rank's values may have been added up on the way
  kLists,    // the ranks' whose lists have it
  kAll,      // every rank's
};

// All that the library knows of a collective.
struct CollectiveRow {
  sparsecollColl_t id;
  const char* name;
  const char* paper;
  CollectiveMaker make;  // nullptr: the engine's dense all-reduce, without a selection
  Contributors contributors = Contributors::kUnknown;
  bool facts = false;    // every rank learns how many entries each selected, and its threshold
  uint32_t perSlot = 0;  // memory in elements, times P and the most entries a rank may select
  bool blocks = false;   // selects from blocks that it cuts the vector into; needs a selector that can
  CollectiveState state = nullptr;  // nullptr: it keeps nothing
  std::span<const PresetRow> presets = {};
};

std::span<const CollectiveRow* const> collectiveRows();
// nullptr: none has this id.
const CollectiveRow* collectiveRow(int32_t id);

// What AllGather is for a selection by chunks.
Result<std::unique_ptr<Collective>> makeChunkGather(const CollectiveSetup& setup);

}  // namespace sparsecoll
