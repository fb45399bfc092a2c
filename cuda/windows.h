// Windows as kernels look them up.
#pragma once

#include "core/control.h"
#include "core/search.h"

namespace sparsecoll::cuda {

// The first window that ends behind `at`; empty ones do not count. Windows are disjoint and in order.
__device__ inline uint32_t firstWindowPast(const Control& control, uint64_t at) {
  return firstWhere(0, control.windowCount, [&](uint32_t w) { return control.windows[w].end > at; });
}

}  // namespace sparsecoll::cuda
