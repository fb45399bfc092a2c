// The magnitude that `rank` entries reach, of every stride-th one: a descent over the bits of magnitudes, a sweep for
// each bit.
#pragma once

#include "core/crew.h"
#include "core/numeric.h"

namespace sparsecoll {

template <class A>
SC_BOTH double kthLargest(const A* values, uint64_t begin, uint64_t end, uint64_t stride, uint64_t rank,
                          const Crew& crew) {
  using Key = typename Magnitude<A>::Key;
  const uint64_t entries = (end - begin + stride - 1) / stride;
  uint64_t reached = 0;
  for (int bit = static_cast<int>(sizeof(A) * 8) - 2; bit >= 0; --bit) {  // without the sign's
    const uint64_t trial = reached | uint64_t{1} << bit;
    const uint64_t count = crew.sum<uint64_t>(0, entries, [&](uint64_t i) {
      return uint64_t{Magnitude<A>::of(values[begin + i * stride])} >= trial ? uint64_t{1} : 0;
    });
    if (count >= rank) reached = trial;
  }
  static_assert(sizeof(Key) <= 8);
  return thresholdOfKey(reached, sizeof(A) == 8);
}

}  // namespace sparsecoll
