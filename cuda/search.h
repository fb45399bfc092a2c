// Binary search.
#pragma once

#include "cuda/device.h"

namespace sparsecoll::cuda {

// The first i in [begin, end) for which it holds; end if there is none. From there on it holds for all.
template <class Holds>
__device__ inline uint32_t firstWhere(uint32_t begin, uint32_t end, Holds holds) {
  while (begin < end) {
    const uint32_t middle = begin + (end - begin) / 2;
    if (holds(middle))
      end = middle;
    else
      begin = middle + 1;
  }
  return begin;
}

// The first entry in [begin, end) whose index is not below low.
template <class Index>
__device__ inline uint32_t firstNotBelow(const Index* indices, uint32_t begin, uint32_t end, uint64_t low) {
  return firstWhere(begin, end, [indices, low](uint32_t i) { return indices[i] >= low; });
}

}  // namespace sparsecoll::cuda
