// A lock that the race checker does not see, for what it must not take for an order of kernels' memory.
#pragma once

#include <sched.h>

#include <atomic>

namespace simt {

class Spin {
 public:
  void lock() {
    while (held_.exchange(true, std::memory_order_acquire)) sched_yield();
  }
  void unlock() { held_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> held_{false};
};

}  // namespace simt
