// How fast a rank's messages may leave: a bucket of tokens, which is filled only while a message waits. One has left
// once the bits of all its bytes have had their time, as over a link of that rate, so a receiver never has one earlier
// than such a link would bring it. Not charged: what protocols put around a message.
#pragma once

#include <chrono>
#include <cstdint>

namespace sparsecoll::engine {

inline constexpr uint64_t kSlowestRate = 1000;  // bits per second: longest message times this fits the clock
inline constexpr uint64_t kFastestRate = 1000000000000000;

// Used by one thread at a time. Looks at no clock itself.
class Pace {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // bitsPerSecond: kSlowestRate to kFastestRate.
  explicit Pace(uint64_t bitsPerSecond);

  // The next message, of less than 2^31 bytes, has been ready since then, and everything before it has left by now:
  // `due` tells when it may leave. Begun anew before it has left, it is another one in its place.
  void begin(uint64_t bytes, Time ready, Time now);
  void left();    // the message has left
  void giveUp();  // it never will

  // When the message that waits may leave; Time::max(): none waits.
  Time due() const { return due_; }

 private:
  const uint64_t bitsPerSecond_;
  const std::chrono::nanoseconds burst_;
  // When the last bit of what has left was on its way, and what that is beyond whole nanoseconds, in parts of
  // bitsPerSecond.
  Time free_ = Time::min();
  uint64_t rest_ = 0;
  Time due_ = Time::max();
  uint64_t dueRest_ = 0;
};

}  // namespace sparsecoll::engine
