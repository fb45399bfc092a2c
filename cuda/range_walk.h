// Walks of a block over ranges and over what the lists have in them. The lists' entries of a range are added in the
// order of the lists, whose indices are unique each, so sums need neither atomics nor luck.
#pragma once

#include "core/control.h"
#include "core/search.h"
#include "cuda/block.h"
#include "cuda/stretches.h"

namespace sparsecoll::cuda {

using sparsecoll::firstNotBelow;

inline constexpr uint32_t kActiveMost = 64;  // lists that a block looks at together
inline constexpr uint32_t kAhead = 4;        // lists whose first entries are asked for at once

// A list's entries in one range.
template <class A, class Index>
struct ActiveList {
  const Index* indices;  // nullptr: a run
  const A* values;
  uint32_t offset;  // of a run: where it starts in the range
  uint32_t length;
};

// In shared memory. One bit for each index that some list has: sums whose bit is not set hold garbage, so that nothing
// has to be cleared but the bits.
template <class A, class Index>
struct RangeMarks {
  uint64_t next;
  uint32_t activeCount;
  uint32_t touched[kRange<A> / 32];
  ActiveList<A, Index> active[kActiveMost];
  BlockSums<uint32_t> sums;

  __device__ void clear() {
    for (uint32_t w = threadIdx.x; w < kRange<A> / 32; w += blockDim.x) touched[w] = 0;
  }
  // True if it is the first to touch it.
  __device__ bool touch(uint32_t offset) {
    const uint32_t bit = 1u << (offset % 32);
    return (atomicOr(&touched[offset / 32], bit) & bit) == 0;
  }
  __device__ bool isTouched(uint32_t offset) const { return (touched[offset / 32] >> (offset % 32) & 1u) != 0; }
};

// Indices whose sums are to be NaN.
struct Poison {
  const Control* control = nullptr;  // nullptr: none

#if SC_DEVICE_CODE
  // each(offset) for those in [low, low + length); the block's threads share them.
  template <class Each>
  __device__ void forEach(uint64_t low, uint64_t length, Each each) const {
    if (control == nullptr || control->anyNonFinite == 0) return;
    const uint32_t* const indices = control->poison;
    for (uint64_t i = threadIdx.x; i < control->poisonCount; i += blockDim.x)
      if (indices[i] - low < length) each(static_cast<uint32_t>(indices[i] - low));
  }
#endif
};

// firstNotBelow in a list that may be a run; low counts from the first stretch on.
template <class Index>
__device__ inline uint32_t firstNotBelow(const LocatedList& list, uint64_t base, uint32_t begin, uint32_t end,
                                         uint64_t low) {
  if (list.indices != nullptr) return firstNotBelow(static_cast<const Index*>(list.indices), begin, end, base + low);
  const uint64_t before = low > list.first ? low - list.first : 0;
  return before < begin ? begin : before < end ? static_cast<uint32_t>(before) : end;
}

// Finds which of kActiveMost lists from `first` on have entries in the range from low on, in their order. To be called
// between barriers.
template <class A, class Index>
__device__ inline void findActive(const Stretches& at, uint32_t stretch, uint64_t low, uint32_t first,
                                  RangeMarks<A, Index>& marks) {
  if (warpIndex() != 0) return;
  uint32_t found = 0;
  for (uint32_t l = first; l < at.lists && l < first + kActiveMost; l += kWarp) {
    const uint32_t list = l + laneIndex();
    ActiveList<A, Index> active{};
    if (list < at.lists) {
      const uint32_t* const offset = at.offset(list, stretch);
      uint32_t begin = offset[0];
      uint32_t end = offset[1];
      if (begin != end) {
        const LocatedList located = at.located[list];
        if (at.shift != kRangeShift<A>) {
          begin = firstNotBelow<Index>(located, at.base, begin, end, low);
          end = firstNotBelow<Index>(located, at.base, begin, end, low + kRange<A>);
        }
        const auto* const indices = static_cast<const Index*>(located.indices);
        active.indices = indices != nullptr ? indices + begin : nullptr;
        active.values = static_cast<const A*>(located.values) + begin;
        active.offset = indices != nullptr ? 0 : static_cast<uint32_t>(located.first + begin - low);
        active.length = end - begin;
      }
    }
    const uint32_t having = __ballot_sync(kAllLanes, active.length != 0);
    if (active.length != 0) marks.active[found + static_cast<uint32_t>(__popc(having & lanesBelow()))] = active;
    found += static_cast<uint32_t>(__popc(having));
  }
  if (laneIndex() == 0) marks.activeCount = found;
}

inline constexpr uint32_t kNoOffset = ~0u;

template <class A>
struct RangeEntry {
  uint32_t offset;  // kNoOffset: there is none
  A value;
};

// In a run zeros are not entries: nobody sent them, or they cancelled out.
template <class A, class Index>
__device__ inline RangeEntry<A> entryOf(const ActiveList<A, Index>& list, uint32_t i, uint64_t origin) {
  if (i >= list.length) return {kNoOffset, A{0}};
  const A value = list.values[i];
  if (list.indices != nullptr) return {static_cast<uint32_t>(list.indices[i] - origin), value};
  return {value == 0 ? kNoOffset : list.offset + i, value};
}

// add(offset, value) for all entries of the range from low on; with kInOrder one list after the other. Begins and ends
// with a barrier. False: there are none.
template <bool kInOrder, class A, class Index, class Add>
__device__ inline bool visitRange(const Stretches& at, uint32_t stretch, uint64_t low, RangeMarks<A, Index>& marks,
                                  Add add) {
  const uint64_t origin = at.base + low;
  bool any = false;
  for (uint32_t first = 0; first < at.lists; first += kActiveMost) {
    __syncthreads();
    findActive(at, stretch, low, first, marks);
    __syncthreads();
    const uint32_t active = marks.activeCount;
    any = any || active != 0;
    for (uint32_t l = 0; l < active; l += kAhead) {
      RangeEntry<A> ahead[kAhead];
#pragma unroll
      for (uint32_t q = 0; q < kAhead; ++q)
        if (l + q < active) ahead[q] = entryOf(marks.active[l + q], threadIdx.x, origin);
#pragma unroll
      for (uint32_t q = 0; q < kAhead; ++q) {
        if (l + q >= active) break;
        if (ahead[q].offset != kNoOffset) add(ahead[q].offset, ahead[q].value);
        const uint32_t length = marks.active[l + q].length;
        for (uint32_t i = threadIdx.x + blockDim.x; i < length; i += blockDim.x) {
          const RangeEntry<A> entry = entryOf(marks.active[l + q], i, origin);
          if (entry.offset != kNoOffset) add(entry.offset, entry.value);
        }
        if constexpr (kInOrder) __syncthreads();
      }
    }
  }
  __syncthreads();
  return any;
}

// Where the first range at or behind low begins that has entries; where the stretch ends if there is none. The block's
// threads come together.
template <class A, class Index>
__device__ inline uint64_t nextRange(const Stretches& at, uint32_t stretch, uint64_t low, const Poison& poison,
                                     RangeMarks<A, Index>& marks) {
  const uint64_t end = at.end(stretch);
  if (at.shift == kRangeShift<A> || low >= end) return low;
  __syncthreads();
  if (threadIdx.x == 0) marks.next = end;
  __syncthreads();
  for (uint32_t list = threadIdx.x; list < at.lists; list += blockDim.x) {
    const uint32_t* const offset = at.offset(list, stretch);
    if (offset[0] == offset[1]) continue;
    const LocatedList located = at.located[list];
    const uint32_t i = firstNotBelow<Index>(located, at.base, offset[0], offset[1], low);
    if (i == offset[1]) continue;
    const auto* const indices = static_cast<const Index*>(located.indices);
    atomicMinWide(&marks.next, indices != nullptr ? indices[i] - at.base : located.first + i);
  }
  poison.forEach(at.base + low, end - low, [&](uint32_t offset) { atomicMinWide(&marks.next, low + offset); });
  __syncthreads();
  const uint64_t next = marks.next;
  return next < end ? next >> kRangeShift<A> << kRangeShift<A> : end;
}

}  // namespace sparsecoll::cuda
