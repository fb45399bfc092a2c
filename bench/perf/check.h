// The correctness phase. Gradients are integers, small enough for every sum to be exact, so a sum is right or wrong and
// there is no tolerance: what the ranks put in is what came out or is still in their residuals, entry by entry and step
// by step.
#pragma once

#include "bench/perf/options.h"
#include "bench/perf/row.h"

namespace bench {

// The gradients' largest magnitude; 0 if with so many ranks no sum of this type is sure to be exact.
uint64_t largestCheckInteger(const ElementType& type, int ranks);

// Runs the case with reducers of its own; sums, whatever the case's operation is.
CheckResult checkCase(const Case& what, uint64_t seed);

}  // namespace bench
