// Sparse vectors as lists of entries, and their sums as maps.
#pragma once

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "tests/support/group.h"

namespace sparsecoll::test {

using Entries = std::vector<std::pair<uint64_t, double>>;
using Sums = std::map<uint64_t, double>;

// Adds entries in the order given, each addition rounded to the accumulate type.
inline void addTo(Sums& sums, const Entries& entries, sparsecollDataType_t type) {
  for (const auto& [index, value] : entries) {
    double& slot = sums[index];
    slot = roundTo(accumulateType(type), slot + value);
  }
}

// First one rank's entries with one index, then the ranks in order.
inline Sums sumOf(const std::vector<Entries>& ranks, sparsecollDataType_t type) {
  Sums total;
  for (const Entries& entries : ranks) {
    Sums own;
    addTo(own, entries, type);
    addTo(total, Entries(own.begin(), own.end()), type);
  }
  return total;
}

inline Entries finished(const Sums& sums, sparsecollDataType_t type, double divisor = 1, double scale = 1) {
  Entries entries;
  const auto round = [&](double x) { return roundTo(accumulateType(type), x); };
  for (const auto& [index, value] : sums)
    entries.push_back({index, roundTo(type, round(round(value / divisor) * round(scale)))});
  return entries;
}

inline std::unique_ptr<SparseVector> vectorOf(const Entries& entries, sparsecollDataType_t type, uint64_t length,
                                              sparsecollIndexType_t indexType, uint64_t spare = 0) {
  auto vector = std::make_unique<SparseVector>(type, length, entries.size() + spare, indexType);
  for (const auto& [index, value] : entries) vector->add(index, value);
  return vector;
}

inline Entries entriesOf(const SparseVector& vector) {
  Entries entries;
  for (size_t i = 0; i < vector.count(); ++i) entries.push_back({vector.index(i), vector.value(i)});
  return entries;
}

// Random entries: unsorted, some with the same index, values that every type holds.
inline Entries randomEntries(Random& random, uint64_t length, size_t count, sparsecollDataType_t type) {
  Entries entries;
  for (size_t i = 0; i < count; ++i) {
    const uint64_t index = random.chance(0.1) && i > 0 ? entries[random.below(i)].first : random.below(length);
    entries.push_back({index, roundTo(type, random.bell())});
  }
  return entries;
}

inline bool isSorted(const sparsecollVector_t& vector) { return (vector.flags & SPARSECOLL_SORTED) != 0; }

}  // namespace sparsecoll::test
