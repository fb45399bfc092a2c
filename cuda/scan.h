// Running sums over a table, by the block that goes last.
#pragma once

#include "cuda/block.h"

namespace sparsecoll::cuda {

// values[i] = sum of the values before it, by one block; returns the sum of all. kEach: what a thread holds at a time.
template <uint32_t kEach = 8>
__device__ inline uint64_t scanByBlock(uint64_t* values, uint64_t count, BlockSums<uint64_t>& room) {
  uint64_t before = 0;
  for (uint64_t begin = 0; begin < count; begin += uint64_t{kEach} * blockDim.x) {
    uint64_t own[kEach];
    uint64_t sum = 0;
#pragma unroll
    for (uint32_t q = 0; q < kEach; ++q) {
      const uint64_t i = begin + uint64_t{threadIdx.x} * kEach + q;
      own[q] = i < count ? values[i] : 0;
      sum += own[q];
    }
    const BlockSum<uint64_t> sums = blockSum(sum, room);
    uint64_t at = before + sums.below;
#pragma unroll
    for (uint32_t q = 0; q < kEach; ++q) {
      const uint64_t i = begin + uint64_t{threadIdx.x} * kEach + q;
      if (i < count) values[i] = at;
      at += own[q];
    }
    before += sums.total;
  }
  return before;
}

}  // namespace sparsecoll::cuda
