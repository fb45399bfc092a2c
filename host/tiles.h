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
#include "core/list_span.h"

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
      const auto [indices, values, count] = spanOf<A, Index>(lists_[l]);
      uint32_t c = cursors_[l];
      if (indices == nullptr) {
        addRun(lists_[l].first, values, count, low, length, tile, mark, cursors_[l]);
        continue;
      }
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
    for (size_t l = 0; l < lists_.size(); ++l) {
      const auto list = spanOf<A, Index>(lists_[l]);
      if (cursors_[l] < list.count)
        next = std::min(next, list.indices != nullptr ? list.indices[cursors_[l]] : lists_[l].first + cursors_[l]);
    }
    return next;
  }

  // Every entry was taken. Otherwise some index was not below n, or out of order.
  Status finished(uint64_t n) const {
    bool complete = true;
    for (size_t l = 0; l < lists_.size(); ++l) {
      const uint32_t c = cursors_[l];
      const auto [indices, values, count] = spanOf<A, Index>(lists_[l]);
      if (c == count) continue;
      complete = false;
      if (indices == nullptr)
        return failBy(static_cast<int>(l), sparsecollCorrupted, "list {} is a run past the end", l);
      if (indices[c] < n && (c == 0 || indices[c] > indices[c - 1])) continue;  // stopped because of another list
      return failBy(static_cast<int>(l), sparsecollCorrupted,
                    "list {}: index {} of entry {} is out of range or out of order", l,
                    static_cast<uint64_t>(indices[c]), c);
    }
    if (!complete) return fail(sparsecollInternalError, "a walk over sound lists did not end");
    return {};
  }

 private:
  template <class Mark>
  void addRun(uint64_t first, const A* values, uint32_t count, uint64_t low, uint64_t length, A* tile, Mark mark,
              uint32_t& cursor) const {
    if (first + cursor < low) return;  // finished() finds it out
    for (; cursor < count && first + cursor - low < length; ++cursor) {
      const uint64_t offset = first + cursor - low;
      if (values[cursor] == 0) continue;  // nobody sent it, or it cancelled out
      tile[offset] = add_ ? tile[offset] + values[cursor] : values[cursor];
      mark(offset);
    }
  }

  std::span<const ListView> lists_;
  bool add_;
  std::array<uint32_t, kMaxRanks + 1> cursors_;  // a list of every rank, and one of what all of them send dense
};

}  // namespace sparsecoll::host
