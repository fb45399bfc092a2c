// Sparse lists of some ranks, and their sum as an oracle forms it: one map, entry after entry in rank order.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "core/checked.h"
#include "core/kernels.h"
#include "tests/unit/data.h"

namespace sparsecoll::test {

template <class A, class Index = uint32_t>
struct Entries {
  std::vector<Index> indices;
  std::vector<A> values;
};

// About density * n indices in increasing order.
template <class A, class Index = uint32_t>
Entries<A, Index> someEntries(uint64_t n, double density, uint64_t seed, Fill fill = Fill::kSmooth) {
  Random random(seed);
  Entries<A, Index> entries;
  const auto widestGap = std::max<uint64_t>(1, static_cast<uint64_t>(2 / density) - 1);
  for (uint64_t i = below(random, widestGap); i < n; i += 1 + below(random, widestGap)) {
    entries.indices.push_back(static_cast<Index>(i));
    entries.values.push_back(filled<A>(fill, entries.indices.size(), random));
  }
  return entries;
}

// Lists in the memory they would travel in: exactly as long as they are, so that ASan sees what is read past them.
template <class A, class Index = uint32_t>
class Lists {
 public:
  void add(const Entries<A, Index>& entries, bool packed = true) {
    const uint64_t indexBytes = entries.indices.size() * sizeof(Index);
    const uint64_t valueBytes = entries.values.size() * sizeof(A);
    const uint64_t valuesAt = alignUp(indexBytes, 16);
    auto memory = std::make_unique<std::byte[]>(packed ? valuesAt + valueBytes : indexBytes);
    if (indexBytes != 0) std::memcpy(memory.get(), entries.indices.data(), indexBytes);
    if (packed && valueBytes != 0) std::memcpy(memory.get() + valuesAt, entries.values.data(), valueBytes);
    ListView view;
    view.indices = memory.get();
    memory_.push_back(std::move(memory));
    if (!packed) {
      memory_.push_back(std::make_unique<std::byte[]>(valueBytes + 1));
      if (valueBytes != 0) std::memcpy(memory_.back().get(), entries.values.data(), valueBytes);
      view.values = memory_.back().get();
    }
    counts_.push_back(std::make_unique<uint32_t>(static_cast<uint32_t>(entries.indices.size())));
    view.count = counts_.back().get();
    views_.push_back(view);
    entries_.push_back(entries);
  }

  std::span<const ListView> views() const { return views_; }
  const std::vector<Entries<A, Index>>& entries() const { return entries_; }

  // Sums start from +0; assigned values stay as they are.
  std::map<uint64_t, A> sum(Combine mode) const {
    std::map<uint64_t, A> sums;
    for (const auto& list : entries_)
      for (size_t i = 0; i < list.indices.size(); ++i) {
        A& slot = sums[list.indices[i]];
        slot = mode == Combine::kAdd ? slot + list.values[i] : list.values[i];
      }
    return sums;
  }

 private:
  std::vector<std::unique_ptr<std::byte[]>> memory_;
  std::vector<std::unique_ptr<uint32_t>> counts_;
  std::vector<ListView> views_;
  std::vector<Entries<A, Index>> entries_;
};

template <class A, class Index = uint32_t>
Lists<A, Index> someLists(size_t ranks, uint64_t n, double density, uint64_t seed, Fill fill = Fill::kSmooth) {
  Lists<A, Index> lists;
  for (size_t r = 0; r < ranks; ++r) lists.add(someEntries<A, Index>(n, density, seed * 100 + r, fill), r % 3 != 2);
  return lists;
}

// x / divisor * scale with one rounding each, NaN in its canonical form.
template <class A>
A finished(A x, const Finish& finish) {
  const A y = x / static_cast<A>(finish.divisor) * static_cast<A>(finish.scale.value);
  return std::isnan(y) ? std::numeric_limits<A>::quiet_NaN() : y;
}

}  // namespace sparsecoll::test
