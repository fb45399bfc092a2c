// What the memory of this machine allows, measured in the same process with all ranks at work.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/common/memory.h"
#include "bench/perf/element.h"
#include "bench/perf/team.h"

namespace bench {

// Bytes a second of each rank while all ranks run.
struct Rate {
  double byWall = 0;  // by the time from the first rank's start to the last one's end
  // By the computing time of the rank that needed most: ranks that take turns on a core do not share it. 0 on a device.
  double byCpu = 0;
};

// Loops over n floats a rank that do nothing but stream. A device is shared by its ranks: each has its part of what one
// stream reaches.
class Roofline {
 public:
  // Keeps the fastest of several loops.
  Roofline(uint64_t n, Team& team);

  const char* loop() const { return name_; }
  double best() const { return best_; }  // by wall
  // What the machine has left over for that loop just now: the median of a few runs.
  Rate now(Team& team) const;

 private:
  struct Buffers {
    Memory residual, gradient;
  };
  Rate deviceShare(const Team& team) const;
  std::vector<Rate> rates(size_t loop, Team& team) const;

  uint64_t n_;
  uint64_t rounds_;               // in a run: so many that starting the threads does not show
  std::vector<Buffers> buffers_;  // of each rank
  size_t loop_ = 0;
  const char* name_ = "";
  double best_ = 0;
};

// Bytes an element that a step cannot do without: read the gradient, read and write the residual, and the velocity
// where there is momentum, write the sum; where the sum is preserved between steps, writing its few entries counts for
// nothing. Dense: read the gradient, write the sum.
uint64_t localBytes(const ElementType& type, bool dense, uint32_t flags, bool momentum = false);

}  // namespace bench
