// Waiting, to a deadline: for a predicate that also watches for cancellation, or for descriptors. core/patience.h is for
// what can only be asked.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "sparsecoll/sparsecoll.h"

namespace sparsecoll {

class Deadline {
 public:
  static Deadline in(uint64_t timeoutMs);  // SPARSECOLL_NO_TIMEOUT: never
  static Deadline earlier(const Deadline& a, const Deadline& b);
  bool expired() const;
  std::chrono::nanoseconds left() const;  // 0: it has passed

 private:
  friend class WaitPoint;
  friend void pause(const Deadline& deadline);
  std::chrono::steady_clock::time_point at_;
};

// A short sleep, for what can only be asked and does not tell. Ends at the deadline.
void pause(const Deadline& deadline);

// A place where one thread sleeps and others wake it. All calls hold the mutex that guards the predicate's state.
class WaitPoint {
 public:
  void wake() { changed_.notify_all(); }

  // Returns true as soon as done() holds, false when the deadline passes first.
  template <class Done>
  bool wait(std::unique_lock<std::mutex>& lock, const Deadline& deadline, Done done) {
    while (!done()) {
      if (!sleep(lock, deadline)) return done();
    }
    return true;
  }

 private:
  bool sleep(std::unique_lock<std::mutex>& lock, const Deadline& deadline);  // false: the deadline has passed
  std::condition_variable changed_;
};

}  // namespace sparsecoll
