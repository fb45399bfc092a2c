// The order in which squares of a vector's tiles are added up, on hosts and devices: the tiles of a group one after
// another, then the groups. Devices form the sums of groups at the same time.
#pragma once

#include <cstdint>

#include "core/portable.h"

namespace sparsecoll {

inline constexpr uint32_t kTileGroup = 256;  // with a billion elements there are about as many groups

class TileSum {
 public:
  SC_HD void add(double tile) {
    group_ += tile;
    if (++tiles_ % kTileGroup != 0) return;
    sum_ += group_;
    group_ = 0;
  }
  SC_HD double sum() const { return sum_ + group_; }

 private:
  double sum_ = 0;
  double group_ = 0;
  uint64_t tiles_ = 0;
};

}  // namespace sparsecoll
