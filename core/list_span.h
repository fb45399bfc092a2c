// A list as loops over its entries see it, and where the entries of a list being written go.
#pragma once

#include <cstdint>

#include "core/checked.h"
#include "core/frame.h"
#include "core/list.h"

namespace sparsecoll {

template <class A, class Index = uint32_t>
struct ListSpan {
  const Index* indices;  // nullptr: a run
  const A* values;
  uint32_t count;
};

template <class A, class Index = uint32_t>
SC_BOTH ListSpan<A, Index> spanOf(const ListView& list) {
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

// Where entry 0 goes.
template <class A, class Index = uint32_t>
struct ListSlots {
  Index* indices;
  A* values;
};

// total: how many entries there will be.
template <class A, class Index = uint32_t>
SC_BOTH ListSlots<A, Index> slotsOf(const List& list, uint64_t total) {
  auto* const indices = reinterpret_cast<Index*>(list.indices);
  if (list.where == List::Values::kApart) return {indices, static_cast<A*>(list.values)};
  auto* const bytes = reinterpret_cast<std::byte*>(list.indices);
  return {indices, reinterpret_cast<A*>(bytes + alignUp(total * sizeof(Index), 16))};
}

}  // namespace sparsecoll
