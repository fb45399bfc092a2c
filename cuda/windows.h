// Windows as kernels look them up.
#pragma once

#include "core/control.h"
#include "cuda/device.h"

namespace sparsecoll::cuda {

// The first window that ends behind `at`; empty ones do not count. Windows are disjoint and in order.
__device__ inline uint32_t firstWindowPast(const Control& control, uint64_t at) {
  uint32_t low = 0;
  uint32_t high = control.windowCount;
  while (low < high) {
    const uint32_t middle = (low + high) / 2;
    if (control.windows[middle].end > at)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

}  // namespace sparsecoll::cuda
