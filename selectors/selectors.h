// The selectors: one row each, which stands in the file of its method.
#pragma once

#include <cstdint>
#include <span>

#include "core/preset.h"
#include "selectors/selection.h"

namespace sparsecoll {

// Declared memory of a method in accumulate elements: perLength * n + perEntry * k * P + n / 256.
struct MemoryBound {
  uint32_t perLength;
  uint32_t perEntry;
};

// All that the library knows of a selector. Dispatch, the C API, the command line tools and the tests read it.
struct SelectorRow {
  sparsecollSelect_t id;
  const char* name;
  const char* paper;
  PlanFunction plan;
  sparsecollColl_t collective;    // what Auto means where dense is not better
  bool densityIsGlobal = false;   // k counts the union over ranks
  bool segmentDensities = false;  // of single tensors
  bool blocks = false;            // selects from the blocks of a collective
  MemoryBound bound;
  MemoryBound faithfulBound;
  std::span<const PresetRow> presets = {};
  int32_t publishedRules = 1;  // params.faithful names one of them, from 1 on
};

std::span<const SelectorRow* const> selectorRows();
// nullptr: none has this id.
const SelectorRow* selectorRow(int32_t id);

}  // namespace sparsecoll
