// What is kept of every timed step of a method, and what comes of it.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/common/memory.h"
#include "bench/perf/options.h"
#include "bench/perf/row.h"
#include "sparsecoll/sparsecoll.h"

namespace bench {

struct Step {
  uint64_t startNs = 0;
  uint64_t endNs = 0;
  uint64_t cpuNs = 0;
  sparsecollStats_t stats{};
};

using Steps = std::vector<Step>;  // of one rank

// Elements in [begin, end) that are not 0.
uint64_t nonZerosIn(const Memory& out, const ElementType& type, uint64_t begin, uint64_t end);

// ranks: the steps of each, at least one. The timing lacks unionEntries.
Timing timingOf(const std::vector<Steps>& ranks, const sparsecollReducerInfo_t& info, const Shape& shape);

}  // namespace bench
