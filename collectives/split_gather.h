#pragma once

#include <cstdint>

namespace sparsecoll {

struct SplitGatherState {
  uint32_t* counts;    // entries of the regions' sums, in the ring's order from this rank on
  uint64_t denseFrom;  // entries of the whole sum from which on regions are gathered as runs
  uint32_t dense;      // 1: they are in this step
};

}  // namespace sparsecoll
