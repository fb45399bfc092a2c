// Kernels on the host have finished when they return, so their clock is the wall's.
#pragma once

#include <chrono>
#include <mutex>

#include "core/step_clock.h"

namespace sparsecoll::host {

class HostClock final : public StepClock {
 public:
  void start(Phase, Stream) override {
    running_ = {};
    begun_ = last_ = Clock::now();
  }
  void end(Phase phase, Stream) override {
    const auto now = Clock::now();
    running_.ns[static_cast<size_t>(phase)] += between(last_, now);
    last_ = now;
  }
  void stop() override {
    running_.totalNs = between(begun_, Clock::now());
    const std::lock_guard lock(mutex_);
    latest_ = running_;
  }
  PhaseTimes latest() override {
    const std::lock_guard lock(mutex_);
    return latest_;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static uint64_t between(Clock::time_point from, Clock::time_point to) {
    return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(to - from).count());
  }

  PhaseTimes running_;
  Clock::time_point begun_, last_;
  std::mutex mutex_;  // guards what follows
  PhaseTimes latest_;
};

}  // namespace sparsecoll::host
