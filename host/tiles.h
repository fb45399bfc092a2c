// Range-partitioned sums of P sorted lists: the dense index range is cut into tiles whose sums fit in the first-level
// cache, and every list adds its entries of a tile in rank order. One walk over each list, no sorting, no atomics.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>

#include "core/kernels.h"
#include "core/limits.h"

namespace sparsecoll::host {

template <class A>
inline constexpr uint64_t kTileElements = 32768 / sizeof(A);

inline constexpr uint64_t kLineElements = 16;  // one bit of a touched map

template <class A, class Index>
class TileWalker {
 public:
  TileWalker(std::span<const ListView> lists, Combine mode) : lists_(lists), add_(mode == Combine::kAdd) {
    std::fill_n(cursors_.begin(), lists.size(), 0u);
  }

  // Adds every entry with an index in [low, low + length) to tile; mark(offset) is told each one.
  template <class Mark>
  void gatherTile(uint64_t low, uint64_t length, A* tile, Mark mark) {
    for (size_t l = 0; l < lists_.size(); ++l) {
      const auto* indices = static_cast<const Index*>(lists_[l].indices);
      const auto* values = valuesOf(lists_[l]);
      const uint32_t count = *lists_[l].count;
      uint32_t c = cursors_[l];
      for (uint64_t least = 0; c < count; ++c) {
        // Offsets must grow from least to below length; one compare sees to both ends. An index below low wraps around.
        // What does not pass ends the walk over this list, and finished() finds it out.
        const uint64_t offset = static_cast<uint64_t>(indices[c]) - low;
        if (offset - least >= length - least) break;
        least = offset + 1;
        tile[offset] = add_ ? tile[offset] + values[c] : values[c];
        mark(offset);
      }
      cursors_[l] = c;
    }
  }

  // The lowest index that no tile has taken yet; ~0 when all lists are used up.
  uint64_t nextIndex() const {
    uint64_t next = ~uint64_t{0};
    for (size_t l = 0; l < lists_.size(); ++l)
      if (cursors_[l] < *lists_[l].count)
        next = std::min<uint64_t>(next, static_cast<const Index*>(lists_[l].indices)[cursors_[l]]);
    return next;
  }

  // Every entry was taken. Otherwise some index was not below n, or out of order.
  Status finished(uint64_t n) const {
    bool complete = true;
    for (size_t l = 0; l < lists_.size(); ++l) {
      const uint32_t c = cursors_[l];
      if (c == *lists_[l].count) continue;
      complete = false;
      const auto* indices = static_cast<const Index*>(lists_[l].indices);
      if (indices[c] < n && (c == 0 || indices[c] > indices[c - 1])) continue;  // stopped because of another list
      return failBy(static_cast<int>(l), sparsecollCorrupted,
                    "list {}: index {} of entry {} is out of range or out of order", l,
                    static_cast<uint64_t>(indices[c]), c);
    }
    if (!complete) return fail(sparsecollInternalError, "a walk over sound lists did not end");
    return {};
  }

 private:
  static const A* valuesOf(const ListView& list) {
    if (list.values != nullptr) return static_cast<const A*>(list.values);
    const uint64_t indexBytes = alignUp(*list.count * sizeof(Index), 16);
    return reinterpret_cast<const A*>(static_cast<const std::byte*>(list.indices) + indexBytes);
  }

  std::span<const ListView> lists_;
  bool add_;
  std::array<uint32_t, kMaxRanks> cursors_;
};

}  // namespace sparsecoll::host
