// Times of operations on a device: captured in graphs, replayed, and measured by events around each replay.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "bench/device/cuda_objects.h"

namespace bench {

// An operation in all the variants that it is replayed in: on other buffers, so that caches do not hold what it reads,
// or with other data.
struct Operation {
  double bytes = 0;                          // that it cannot do without, each time
  std::vector<std::function<void()>> steps;  // each enqueues it once
  enum class Order { kInTurn, kAny } order = Order::kInTurn;
  uint64_t warmup = 2;  // times that all steps are replayed before the clock runs
};

struct Replays {
  uint64_t count = 60;  // that are timed
  // A graph moves so much at least: a millisecond on a fast device. Between two graphs it idles for two to four
  // microseconds, which are counted as the operation's.
  double graphBytes = 4e9;
};

struct Times {
  double median = 0, best = 0, p99 = 0;  // seconds
  uint64_t replays = 0;
  uint64_t perReplay = 0;  // operations in a graph: as many as keep a device busy for long enough to be timed
};

// Operations end on the stream.
Times measure(const Operation& operation, const CudaStream& stream, const Replays& replays);

// Which steps each graph has: every step as often as every other, in turn or in an order of chance, and at least
// `least` in a graph.
std::vector<std::vector<uint64_t>> shareOut(uint64_t steps, uint64_t least, Operation::Order order);

}  // namespace bench
