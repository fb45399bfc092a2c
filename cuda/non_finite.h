// The names of entries that are NaN or Inf. They are looked for only in a step that met some, by one block, in index
// order.
#pragma once

#include "core/control.h"
#include "cuda/block.h"

namespace sparsecoll::cuda {

inline constexpr uint32_t kNamingThreads = 1024;

struct NamingRoom {
  BlockSums<uint32_t> sums;
};

// Adds the non-finite entries of acc[begin, end) to the list. Every thread of the one block calls it.
template <class A>
__device__ inline void nameNonFinite(const A* acc, uint64_t begin, uint64_t end, NonFinite& list, NamingRoom& room) {
  for (uint64_t row = begin; row < end; row += blockDim.x) {
    const uint64_t i = row + threadIdx.x;
    const bool met = i < end && !isFinite(acc[i]);
    if (__syncthreads_or(met ? 1 : 0) == 0) continue;
    const uint32_t before = list.count;
    const BlockSum<uint32_t> sum = blockSum(met ? 1u : 0u, room.sums);
    if (met && before + sum.below < kMaxNonFiniteIndices) list.indices[before + sum.below] = static_cast<uint32_t>(i);
    __syncthreads();
    if (threadIdx.x == 0) list.count = before + sum.total;
    __syncthreads();
  }
}

}  // namespace sparsecoll::cuda
