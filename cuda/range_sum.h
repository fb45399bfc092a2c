// The sum of all lists in one range, in shared memory.
#pragma once

#include "cuda/range_walk.h"

namespace sparsecoll::cuda {

// Blocks that a processor is to have room for: as many as its shared memory allows, or the registers of doubles.
template <class A>
inline constexpr int kRangeBlocks = sizeof(A) == 8 ? 4 : 6;

template <class A, class Index>
struct RangeSum {
  alignas(16) A sums[kRange<A>];
  RangeMarks<A, Index> marks;
};

// Counts of contributors lie behind it where they are wanted.
template <class A, class Index>
inline uint32_t rangeSumBytes(bool counts) {
  return static_cast<uint32_t>(sizeof(RangeSum<A, Index>) + (counts ? kRange<A> * sizeof(uint16_t) : 0));
}

// How sums are formed.
struct SumRule {
  bool assign = false;  // the last list's value, instead
  bool counts = false;  // sums are divided by the number of lists that have the entry
};

template <class A, class Index>
__device__ inline uint16_t* contributorsOf(RangeSum<A, Index>& sum) {
  return reinterpret_cast<uint16_t*>(&sum + 1);
}

// Begins and ends with a barrier. False: no list has entries there.
template <class A, class Index>
__device__ inline bool sumRange(const Stretches& at, uint32_t stretch, uint64_t low, const SumRule& rule,
                                RangeSum<A, Index>& sum) {
  uint16_t* const contributors = contributorsOf(sum);
  __syncthreads();
  sum.marks.clear();
  return visitRange<true>(at, stretch, low, sum.marks, [&](uint32_t offset, A value) {
    const bool first = sum.marks.touch(offset);
    // Sums start from +0, which turns a first -0 into +0.
    sum.sums[offset] = rule.assign ? value : (first ? A{0} : sum.sums[offset]) + value;
    if (rule.counts) contributors[offset] = static_cast<uint16_t>(first ? 1 : contributors[offset] + 1);
  });
}

// The average that a rule may ask for. Only of what was touched.
template <class A, class Index>
__device__ inline A averaged(RangeSum<A, Index>& sum, uint32_t offset, const SumRule& rule) {
  const A x = sum.sums[offset];
  if (!rule.counts) return x;
  const uint16_t contributors = contributorsOf(sum)[offset];
  return contributors > 1 ? x / static_cast<A>(contributors) : x;
}

// More shared memory than a kernel has without asking.
template <class Kernel>
Grid withShared(const char* name, Kernel kernel, Grid grid, uint32_t bytes, DeviceContext& device) {
  constexpr uint32_t kWithoutAsking = 48 * 1024;
  grid.sharedBytes = bytes;
  if (bytes > kWithoutAsking)
    device.note(name, bytes,
                cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)));
  return grid;
}

}  // namespace sparsecoll::cuda
