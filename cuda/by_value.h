// Tables of the host that travel to a kernel among its parameters, so that nothing has to be copied or kept for it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

namespace sparsecoll::cuda {

inline constexpr uint32_t kFew = 16;    // most calls have so few
inline constexpr uint32_t kMany = 256;  // as many of the largest rows as parameters have room for

template <class T, uint32_t kMost>
struct ByValue {
  T at[kMost];
  uint32_t count;
};

template <uint32_t kMost, class T>
ByValue<T, kMost> byValue(std::span<const T> rows) {
  ByValue<T, kMost> table;
  table.count = static_cast<uint32_t>(rows.size());
  std::copy(rows.begin(), rows.end(), table.at);
  return table;
}

// Calls each(table, first, isLast) with all rows in as many tables as it takes; once where there are none.
template <class T, class Each>
void inTables(std::span<const T> rows, Each&& each) {
  if (rows.size() <= kFew) {
    each(byValue<kFew>(rows), 0u, true);
    return;
  }
  for (size_t first = 0; first < rows.size(); first += kMany) {
    const size_t count = std::min<size_t>(kMany, rows.size() - first);
    each(byValue<kMany>(rows.subspan(first, count)), static_cast<uint32_t>(first), first + count == rows.size());
  }
}

}  // namespace sparsecoll::cuda
