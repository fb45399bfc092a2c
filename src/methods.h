// The tables of methods. One row feeds dispatch, the C API, the command line tools, the documentation and the tests.
#pragma once

#include <cstdint>
#include <span>

#include "collectives/collectives.h"
#include "core/status.h"
#include "selectors/selectors.h"

namespace sparsecoll {

// Declared memory of a method in accumulate elements: perLength * n + perEntry * k * P + n / 256.
struct MemoryBound {
  uint32_t perLength;
  uint32_t perEntry;
};

struct SelectorRow {
  sparsecollSelect_t id;
  const char* name;
  PlanFunction plan;
  sparsecollColl_t collective;  // what Auto means where dense is not better
  bool densityIsGlobal;         // k counts the union over ranks
  bool segmentRules;            // honours per-tensor densities
  bool blocks;                  // selects from the blocks of a collective
  MemoryBound bound;
  MemoryBound faithfulBound;
};

// Whose values are in an entry of the sum.
enum class Contributors {
  kUnknown,  // more than one rank's values may have been added up on the way
  kLists,    // the ranks' whose lists have it
  kAll,      // every rank's
};

struct CollectiveRow {
  sparsecollColl_t id;
  const char* name;
  CollectiveMaker make;  // nullptr: the engine's dense all-reduce, without a selection
  Contributors contributors;
  bool facts;            // every rank learns how many entries each selected, and its threshold
  uint32_t perSlot;      // memory in elements, times P and the most entries a rank may select
  bool blocks = false;   // selects from blocks that it cuts the vector into; needs a selector that can
  bool regions = false;  // keeps regions and a threshold of the sum
};

struct PresetRow {
  const char* name;
  sparsecollSelect_t selector;
  sparsecollColl_t collective;
  const char* summary;
  const char* source;
  sparsecollDistribution_t distribution = sparsecollDistributionDefault;
  int32_t teams = 0;
  sparsecollTeamGather_t teamGather = sparsecollTeamGatherDefault;
  double momentum = 0;
};

std::span<const SelectorRow> selectorRows();
std::span<const CollectiveRow> collectiveRows();
std::span<const PresetRow> presetRows();

// Errors: Unsupported (a published method that this version does not have).
Result<const SelectorRow*> findSelector(int32_t id);
Result<const CollectiveRow*> findCollective(int32_t id);
Result<const PresetRow*> findPreset(const char* name);

}  // namespace sparsecoll
