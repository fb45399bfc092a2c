#include "transports/pace.h"

#include <algorithm>

namespace sparsecoll::engine {

namespace {

using std::chrono::nanoseconds;

constexpr uint64_t kPerSecond = 1000000000;

// What may leave at once, after a thread has slept past the time of a message while others stood behind it: that must
// not cost them a part of the rate. More would let small messages pass unlimited; for that reason a rank that had
// nothing to send may not catch up at all.
constexpr uint64_t kBurstBytes = 32u << 10;
constexpr nanoseconds kBurstTime = std::chrono::milliseconds(1);

uint64_t scaledBits(uint64_t bytes) { return bytes * 8 * kPerSecond; }

nanoseconds burstAt(uint64_t bitsPerSecond) {
  return std::max(kBurstTime, nanoseconds(static_cast<int64_t>(scaledBits(kBurstBytes) / bitsPerSecond)));
}

}  // namespace

Pace::Pace(uint64_t bitsPerSecond) : bitsPerSecond_(bitsPerSecond), burst_(burstAt(bitsPerSecond)) {}

void Pace::begin(uint64_t bytes, Time ready, Time now) {
  const Time earliest = std::max(ready, now - burst_);
  const bool idle = free_ < earliest;
  const uint64_t scaled = scaledBits(bytes) + (idle ? 0 : rest_);
  due_ = (idle ? earliest : free_) + nanoseconds(static_cast<int64_t>(scaled / bitsPerSecond_));
  dueRest_ = scaled % bitsPerSecond_;
}

void Pace::left() {
  free_ = due_;
  rest_ = dueRest_;
  giveUp();
}

void Pace::giveUp() { due_ = Time::max(); }

}  // namespace sparsecoll::engine
