// A list as the host's loops see it.
#pragma once

#include <bit>
#include <cstdint>

#include "core/checked.h"
#include "core/kernels.h"

namespace sparsecoll::host {

template <class A, class Index = uint32_t>
struct ListSpan {
  const Index* indices;  // nullptr: a run
  const A* values;
  uint32_t count;
};

template <class A, class Index = uint32_t>
ListSpan<A, Index> spanOf(const ListView& list) {
  const uint32_t all = *list.count;
  const auto* const indices = static_cast<const Index*>(list.indices);
  if (list.flags != nullptr && (*list.flags & kFrameDense) != 0) {
    const auto* const run = static_cast<const A*>(list.indices);
    if (list.form == ListView::Form::kList) return {indices, run, 0};
    if (list.form == ListView::Form::kRun) return {nullptr, run + list.runBegin, list.runLength};
    return {nullptr, run, all};
  }
  if (list.form == ListView::Form::kRun) return {indices, nullptr, 0};
  const void* values = list.values;
  if (values == nullptr)
    values = static_cast<const std::byte*>(list.indices) + alignUp(uint64_t{all} * sizeof(Index), 16);
  const uint32_t length = all / list.parts;
  const uint64_t begin = uint64_t{length} * list.part;
  return {indices + begin, static_cast<const A*>(values) + begin, length};
}

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

// A list being written: where entry 0 goes. total: how many there will be.
template <class A>
struct ListSlots {
  uint32_t* indices;
  A* values;  // nullptr: indices only
};

template <class A>
ListSlots<A> slotsOf(const List& list, uint64_t total) {
  if (list.where == List::Values::kNone) return {list.indices, nullptr};
  if (list.where == List::Values::kApart) return {list.indices, static_cast<A*>(list.values)};
  auto* const bytes = reinterpret_cast<std::byte*>(list.indices);
  return {list.indices, reinterpret_cast<A*>(bytes + alignUp(total * sizeof(uint32_t), 16))};
}

}  // namespace sparsecoll::host
