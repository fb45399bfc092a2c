// Walking lists side by side without branches.
#pragma once

#include <bit>
#include <cstdint>

#include "core/numeric.h"

namespace sparsecoll::host {

// 1 or 0: whether a <= b, and whether b <= a. For lists that are walked side by side: which index comes first nothing
// predicts, and of comparisons the compiler makes branches.
struct IndexOrder {
  uint64_t notAbove;
  uint64_t notBelow;
};

inline IndexOrder orderOf(uint32_t a, uint32_t b) {
  const uint64_t difference = uint64_t{a} - b;
  return {(0 - difference) >> 63 ^ 1, difference >> 63 ^ 1};
}

// x where wanted is 1, +0 where it is 0.
template <class A>
A valueIf(uint64_t wanted, A x) {
  using Key = typename Magnitude<A>::Key;
  return std::bit_cast<A>(static_cast<Key>(std::bit_cast<Key>(x) & static_cast<Key>(0 - wanted)));
}

}  // namespace sparsecoll::host
