// Which indices a list holds, tile by tile: whether another list's entries are among them is then a look at a mark.
// Comparing two lists side by side makes every step wait for the one before.
#pragma once

#include <cstdint>

namespace sparsecoll::host {

class MarkedTile {
 public:
  // Marks the entries of indices, from begin on, that lie in one tile with the first of them. Returns their end.
  uint64_t mark(const uint32_t* indices, uint64_t begin, uint64_t count) {
    low_ = indices[begin] / kTile * kTile;
    uint64_t end = begin;
    for (; end < count && holds(indices[end]); ++end) marks_[indices[end] - low_] = 1;
    return end;
  }
  void clear(const uint32_t* indices, uint64_t begin, uint64_t end) {
    for (; begin < end; ++begin) marks_[indices[begin] - low_] = 0;
  }

  uint64_t low() const { return low_; }
  bool holds(uint32_t index) const { return index - low_ < kTile; }
  uint64_t isMarked(uint32_t index) const { return marks_[index - low_]; }  // 1 or 0, of an index that it holds

 private:
  static constexpr uint64_t kTile = 16384;  // marks that stay in the first-level cache
  uint64_t low_ = 0;
  uint8_t marks_[kTile] = {};
};

}  // namespace sparsecoll::host
