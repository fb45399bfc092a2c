// What the memory of this machine allows, measured in the same process with all ranks at work.
#pragma once

#include <cstdint>

#include "bench/perf/element.h"
#include "bench/perf/team.h"

namespace bench {

struct Roofline {
  double bytesPerSecond = 0;  // of each rank while all ranks run
  const char* loop = "";      // that reached it
};

// The best of several loops over n floats a rank.
Roofline measureRoofline(uint64_t n, Team& team);

// Bytes an element that a step cannot do without: read the gradient, read and write the residual, and the velocity
// where there is momentum, write the sum; where the sum is preserved between steps, writing its few entries counts for
// nothing. Dense: read the gradient, write the sum.
uint64_t localBytes(const ElementType& type, bool dense, uint32_t flags, bool momentum = false);

}  // namespace bench
