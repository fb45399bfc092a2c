// Sums over the threads of a block.
#pragma once

#include "cuda/device.h"

namespace sparsecoll::cuda {

template <class T>
__device__ inline T warpSum(T value) {
  for (uint32_t step = kWarp / 2; step != 0; step /= 2) value += __shfl_down_sync(kAllLanes, value, step);
  return __shfl_sync(kAllLanes, value, 0);
}

// The sum of the values of lower lanes.
template <class T>
__device__ inline T warpSumBelow(T value) {
  T sum = value;
  for (uint32_t step = 1; step < kWarp; step *= 2) {
    const T below = __shfl_up_sync(kAllLanes, sum, step);
    if (laneIndex() >= step) sum += below;
  }
  return sum - value;
}

// Room for a block's sums, in shared memory.
template <class T>
struct BlockSums {
  T warps[kWarp];
  T total;
};

// The sum of the values of lower threads, and of all. Every thread of the block calls it; its warps are whole. Ends
// with a barrier, so that the room can be used again at once.
template <class T>
struct BlockSum {
  T below;
  T total;
};

template <class T>
__device__ inline BlockSum<T> blockSum(T value, BlockSums<T>& room) {
  const T belowInWarp = warpSumBelow(value);
  if (laneIndex() == kWarp - 1) room.warps[warpIndex()] = belowInWarp + value;
  __syncthreads();
  if (warpIndex() == 0) {
    const uint32_t warps = blockDim.x / kWarp;
    const T ofWarp = laneIndex() < warps ? room.warps[laneIndex()] : T{0};
    const T belowWarp = warpSumBelow(ofWarp);
    if (laneIndex() < warps) room.warps[laneIndex()] = belowWarp;
    if (laneIndex() == kWarp - 1) room.total = belowWarp + ofWarp;
  }
  __syncthreads();
  const BlockSum<T> sums{room.warps[warpIndex()] + belowInWarp, room.total};
  __syncthreads();
  return sums;
}

// Whether this block of a row of `blocks` is the last one to come here; then all that the others wrote before can be
// read (past the first-level cache). The counter is zero before and after. Every thread of the block calls it.
__device__ inline bool lastOf(uint32_t& counter, uint32_t blocks) {
  __threadfence();
  __syncthreads();
  int last = 0;
  if (threadIdx.x == 0) {
    last = atomicAdd(&counter, 1u) == blocks - 1 ? 1 : 0;
    if (last != 0) atomicExch(&counter, 0u);  // a plain write would race with the others' additions
  }
  last = __syncthreads_or(last);
  if (last != 0) __threadfence();
  return last != 0;
}

}  // namespace sparsecoll::cuda
