#include "core/wait.h"

#include <algorithm>
#include <thread>

namespace sparsecoll {

namespace {
// A century: far enough for "never", near enough that clock arithmetic cannot overflow.
constexpr uint64_t kLongestMs = 100ull * 365 * 24 * 3600 * 1000;
}  // namespace

Deadline Deadline::in(uint64_t timeoutMs) {
  Deadline deadline;
  deadline.at_ = std::chrono::steady_clock::now() + std::chrono::milliseconds(std::min(timeoutMs, kLongestMs));
  return deadline;
}

bool Deadline::expired() const { return std::chrono::steady_clock::now() >= at_; }

void pause(const Deadline& deadline) {
  constexpr auto kLength = std::chrono::microseconds(50);
  std::this_thread::sleep_until(std::min(deadline.at_, std::chrono::steady_clock::now() + kLength));
}

bool WaitPoint::sleep(std::unique_lock<std::mutex>& lock, const Deadline& deadline) {
  return changed_.wait_until(lock, deadline.at_) == std::cv_status::no_timeout;
}

}  // namespace sparsecoll
