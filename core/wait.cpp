#include "core/wait.h"

#include <algorithm>
#include <cerrno>
#include <thread>

#include "core/events.h"
#include "core/patience.h"
#include "core/poll.h"

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

Deadline Deadline::earlier(const Deadline& a, const Deadline& b) { return a.at_ < b.at_ ? a : b; }

std::chrono::nanoseconds Deadline::left() const {
  return std::max(std::chrono::nanoseconds(0), at_ - std::chrono::steady_clock::now());
}

bool Deadline::expired() const { return std::chrono::steady_clock::now() >= at_; }

void pause(const Deadline& deadline) {
  constexpr auto kLength = std::chrono::microseconds(50);
  std::this_thread::sleep_until(std::min(deadline.at_, std::chrono::steady_clock::now() + kLength));
}

bool awaitAny(std::span<pollfd> watched, const Deadline& deadline) {
  for (;;) {
    constexpr int64_t kPerSecond = 1000000000;
    const int64_t left = deadline.left().count();
    const timespec timeout{left / kPerSecond, left % kPerSecond};
    const int ready = ppoll(watched.data(), watched.size(), &timeout, nullptr);
    if (ready > 0) return true;
    for (pollfd& one : watched) one.revents = 0;
    if (ready == 0 || errno != EINTR || deadline.expired()) return false;
  }
}

size_t awaitEvents(int epoll, std::span<epoll_event> events, const Deadline& deadline) {
  constexpr std::chrono::milliseconds kLongest = std::chrono::hours(1);
  const auto left = std::min(std::chrono::ceil<std::chrono::milliseconds>(deadline.left()), kLongest);
  const int count = epoll_wait(epoll, events.data(), static_cast<int>(events.size()), static_cast<int>(left.count()));
  return count > 0 ? static_cast<size_t>(count) : 0;
}

void awaitAnyEvent(int epoll, std::chrono::nanoseconds most) {
  const timespec length{0, std::max<int64_t>(most.count(), 0)};
  pollfd any{epoll, POLLIN, 0};
  (void)ppoll(&any, 1, &length, nullptr);
}

bool Patience::rest(std::chrono::steady_clock::time_point latest) {
  constexpr uint32_t kLooksAtOnce = 8;
  constexpr auto kYields = std::chrono::microseconds(50);
  constexpr auto kLongestSleep = std::chrono::milliseconds(1);
  if (++looks_ <= kLooksAtOnce) return true;
  const auto now = std::chrono::steady_clock::now();
  if (looks_ == kLooksAtOnce + 1) idleSince_ = now;
  const std::chrono::nanoseconds left = deadline_.left();
  if (left == left.zero()) return false;
  const auto idle = now - idleSince_;
  if (idle < kYields) {
    std::this_thread::yield();
    return true;
  }
  std::this_thread::sleep_until(
      std::min(latest, now + std::min<std::chrono::nanoseconds>({idle / 8, kLongestSleep, left})));
  return true;
}

bool WaitPoint::sleep(std::unique_lock<std::mutex>& lock, const Deadline& deadline) {
  return changed_.wait_until(lock, deadline.at_) == std::cv_status::no_timeout;
}

}  // namespace sparsecoll
