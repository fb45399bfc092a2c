// How many lists have added to each entry of a tile, where sums are averaged over that.
#pragma once

#include <cstdint>
#include <cstring>

#include "host/tiles.h"

namespace sparsecoll::host {

template <class A>
class ContributorCounts {
 public:
  void clear() { std::memset(counts_, 0, sizeof counts_); }
  void note(uint64_t offset) { ++counts_[offset]; }

  // Divides the sums of a tile and forgets it. A true division, as the one by the number of ranks.
  void divide(A* tile, uint64_t length) {
    for (uint64_t i = 0; i < length; ++i)
      if (counts_[i] > 1) tile[i] /= static_cast<A>(counts_[i]);
    std::memset(counts_, 0, length * sizeof counts_[0]);
  }

 private:
  uint16_t counts_[kTileElements<A>];  // of at most kMaxRanks lists
};

}  // namespace sparsecoll::host
