// Radix descents: the digits of keys, and the bin in which the need-th largest key lies.
#pragma once

#include "cuda/block.h"
#include "cuda/selection_space.h"

namespace sparsecoll::cuda {

template <class A>
inline constexpr uint32_t kKeyBits = sizeof(A) * 8 - 1;  // magnitudes have no sign
inline constexpr uint32_t kDigitBits = 11;
static_assert(1u << kDigitBits == kDigits);

// The lowest bit of the digit that step s of a descent looks at.
template <class A>
SC_HD constexpr uint32_t digitShift(uint32_t step) {
  const uint32_t seen = (step + 1) * kDigitBits;
  return seen < kKeyBits<A> ? kKeyBits<A> - seen : 0;
}
template <class A>
inline constexpr uint32_t kDigitSteps = (kKeyBits<A> + kDigitBits - 1) / kDigitBits;

// Whether the key has the digits that the descent has found before this step.
template <class A>
__device__ inline bool hasPrefix(uint64_t key, uint64_t prefix, uint32_t step) {
  return step == 0 || key >> digitShift<A>(step - 1) == prefix >> digitShift<A>(step - 1);
}
// The digit, among as many bins as it has; the last step's may be narrower.
template <class A>
__device__ inline uint32_t digitOf(uint64_t key, uint32_t step) {
  const uint32_t above = step == 0 ? kKeyBits<A> : digitShift<A>(step - 1);
  return static_cast<uint32_t>(key >> digitShift<A>(step)) & ((1u << (above - digitShift<A>(step))) - 1);
}

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
