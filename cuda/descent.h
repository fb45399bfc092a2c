// One step of a radix descent: the bin in which the need-th largest key lies.
#pragma once

#include "cuda/block.h"
#include "cuda/selection_space.h"

namespace sparsecoll::cuda {

struct Chosen {
  uint32_t bin;
  uint64_t need;  // entries still wanted of that bin
};

struct DescentRoom {
  BlockSums<uint64_t> sums;
  Chosen chosen;
};

// bins[b] for b < kDigits: how many keys have digit b; together need of them or more, and need is not 0. Every thread
// of the block calls it; take(b) reads a bin.
template <class Take>
__device__ inline Chosen chooseBin(uint64_t need, DescentRoom& room, Take take) {
  const uint32_t each = kDigits / blockDim.x;
  const uint32_t top = kDigits - threadIdx.x * each;  // this thread's bins lie below, from the largest down
  uint64_t mine = 0;
  for (uint32_t b = 1; b <= each; ++b) mine += take(top - b);
  const uint64_t above = blockSum(mine, room.sums).below;
  if (above < need && need <= above + mine) {
    uint64_t seen = above;
    for (uint32_t b = 1; b <= each; ++b) {
      const uint64_t count = take(top - b);
      if (need <= seen + count) {
        room.chosen = {top - b, need - seen};
        break;
      }
      seen += count;
    }
  }
  __syncthreads();
  const Chosen chosen = room.chosen;
  __syncthreads();
  return chosen;
}

}  // namespace sparsecoll::cuda
