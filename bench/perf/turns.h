// Methods that step in turn, so that all of them see the machine in the same state.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/perf/gradients.h"
#include "bench/perf/options.h"
#include "bench/perf/row.h"

namespace bench {

struct Turns {
  double seconds = 10;        // for all rounds together, but three are run in any case
  uint64_t most = 31;         // rounds
  uint64_t warmup = 2;        // steps of each method before them
  bool asMuchAsTopK = false;  // see countsAllRanks
  double restMs = 0;          // before each step
};

struct Turn {
  Case what;  // as it was run
  Timing timing;
};

// After its warm-up each method takes a few steps. Those that need more than twice the shortest time have no other ones;
// the rest go on round by round, each with a step in every round, and only those count. auto begins when its trials are
// over, and stays until the end. Memory for all that go on is needed at a time.
std::vector<Turn> timeInTurns(std::vector<Case> cases, const Gradients& gradients, const Turns& turns);

// Whether a method whose sums have this many entries, topka's that many, counts the entries of all ranks together in
// its density. It then needs P times as much to deliver no fewer.
bool countsAllRanks(uint64_t entries, uint64_t ofTopK, int ranks);

}  // namespace bench
