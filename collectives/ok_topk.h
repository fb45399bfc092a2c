#pragma once

#include <cstdint>

namespace sparsecoll {

struct OkTopkState {
  uint64_t* regions;    // rank r reduces [regions[r], regions[r + 1])
  uint64_t sumKey;      // least |sum| bits that are gathered
  uint64_t sumLimit;    // most entries of the sum
  uint64_t sumKept;     // least |sum| bits that were kept where the sum was cut
  double sumThreshold;  // it as a threshold
  uint32_t sumDue;      // 1: this step gathers everything and takes the threshold from the k-th magnitude
  uint32_t regionsDue;  // 1: the regions are cut anew after this step
};

}  // namespace sparsecoll
