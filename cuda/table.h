// Host lists as a launch's argument: captured graphs keep them, and nothing is uploaded.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>

#include "core/portable.h"

namespace sparsecoll::cuda {

inline constexpr uint32_t kFewItems = 16;
inline constexpr uint32_t kMostItems = 256;  // lists, windows or ranks in one call

template <class T, uint32_t kRoom>
struct Table {
  uint32_t count;
  T items[kRoom];
};

// Calls f with a table of the items. Longer lists than kMostItems are refused where their owner is made.
template <class T, class F>
void withTable(std::span<const T> items, F&& f) {
  const auto fill = [items](auto& table) {
    table.count = static_cast<uint32_t>(items.size());
    for (size_t i = 0; i < items.size(); ++i) table.items[i] = items[i];
  };
  if (items.size() <= kFewItems) {
    Table<T, kFewItems> table = {};
    fill(table);
    f(std::as_const(table));
  } else {
    Table<T, kMostItems> table = {};
    fill(table);
    f(std::as_const(table));
  }
}

// Calls f(table, first, isLast) with as many tables as the items take; once where there are none.
template <class T, class F>
void withTables(std::span<const T> items, F&& f) {
  size_t first = 0;
  do {
    const std::span<const T> some = items.subspan(first, std::min<size_t>(kMostItems, items.size() - first));
    const bool isLast = first + some.size() == items.size();
    withTable(some, [&](const auto& table) { f(table, static_cast<uint32_t>(first), isLast); });
    first += some.size();
  } while (first < items.size());
}

}  // namespace sparsecoll::cuda
