// The waiting primitive: it ends by its predicate or by its deadline, never otherwise, and no wake-up is lost.
#include "core/wait.h"

#include <pthread.h>
#include <unistd.h>
#include "tests/support/catch.h"

#include <array>
#include <chrono>
#include <csignal>
#include <thread>

#include "core/patience.h"
#include "core/poll.h"

namespace sparsecoll {
namespace {

using Clock = std::chrono::steady_clock;

double msSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

TEST_CASE("a wait ends at its deadline") {
  std::mutex mutex;
  WaitPoint point;
  std::unique_lock lock(mutex);
  const auto start = Clock::now();
  CHECK_FALSE(point.wait(lock, Deadline::in(30), [] { return false; }));
  CHECK(msSince(start) >= 30);
  CHECK(lock.owns_lock());
}

TEST_CASE("a deadline expires when its time has come") {
  CHECK(Deadline::in(0).expired());
  const auto start = Clock::now();
  const Deadline soon = Deadline::in(20);
  while (!soon.expired()) std::this_thread::yield();
  CHECK(msSince(start) >= 20);
  CHECK_FALSE(Deadline::in(60000).expired());
}

TEST_CASE("no timeout means never") {
  CHECK_FALSE(Deadline::in(SPARSECOLL_NO_TIMEOUT).expired());
  CHECK_FALSE(Deadline::in(SPARSECOLL_NO_TIMEOUT - 1).expired());
  std::mutex mutex;
  WaitPoint point;
  bool woken = false;
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const std::lock_guard lock(mutex);
    woken = true;
    point.wake();
  });
  std::unique_lock lock(mutex);
  CHECK(point.wait(lock, Deadline::in(SPARSECOLL_NO_TIMEOUT), [&] { return woken; }));
  lock.unlock();
  other.join();
}

TEST_CASE("a predicate that holds already needs no wake-up and no time") {
  std::mutex mutex;
  WaitPoint point;
  std::unique_lock lock(mutex);
  point.wake();  // before anybody sleeps
  CHECK(point.wait(lock, Deadline::in(SPARSECOLL_NO_TIMEOUT), [] { return true; }));
  CHECK(point.wait(lock, Deadline::in(0), [] { return true; }));
}

TEST_CASE("a wake-up without its predicate does not end a wait") {
  std::mutex mutex;
  WaitPoint point;
  int wakes = 0;
  std::thread other([&] {
    for (int i = 0; i < 5; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      const std::lock_guard lock(mutex);
      ++wakes;
      point.wake();
    }
  });
  std::unique_lock lock(mutex);
  CHECK(point.wait(lock, Deadline::in(60000), [&] { return wakes == 5; }));
  lock.unlock();
  other.join();
}

// What the deadline found undone but the mutex's owner has done in the meantime counts as done.
TEST_CASE("the predicate has the last word at the deadline") {
  std::mutex mutex;
  WaitPoint point;
  int asked = 0;
  std::unique_lock lock(mutex);
  CHECK(point.wait(lock, Deadline::in(5), [&] { return ++asked == 2; }));
}

TEST_CASE("no wake-up is lost in a ping-pong") {
  constexpr int kRounds = 20000;
  std::mutex mutex;
  WaitPoint points[2];
  int turn = 0;
  bool inTime[2] = {true, true};
  const auto play = [&](int side) {
    for (int round = 0; round < kRounds && inTime[side]; ++round) {
      std::unique_lock lock(mutex);
      inTime[side] = points[side].wait(lock, Deadline::in(60000), [&] { return turn % 2 == side; });
      ++turn;
      points[1 - side].wake();
    }
  };
  std::thread other(play, 1);
  play(0);
  other.join();
  CHECK(inTime[0]);
  CHECK(inTime[1]);
  CHECK(turn == 2 * kRounds);
}

TEST_CASE("one wake-up reaches every sleeper") {
  constexpr int kSleepers = 6;
  std::mutex mutex;
  WaitPoint point;
  int awake = 0;
  bool open = false;
  std::vector<std::thread> sleepers;
  for (int i = 0; i < kSleepers; ++i)
    sleepers.emplace_back([&] {
      std::unique_lock lock(mutex);
      if (point.wait(lock, Deadline::in(60000), [&] { return open; })) ++awake;
    });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  {
    const std::lock_guard lock(mutex);
    open = true;
    point.wake();
  }
  for (std::thread& sleeper : sleepers) sleeper.join();
  CHECK(awake == kSleepers);
}

TEST_CASE("a wait for descriptors ends when one is ready or at its deadline, not by a signal") {
  struct sigaction ignore {};
  ignore.sa_handler = [](int) {};
  sigaction(SIGUSR1, &ignore, nullptr);
  std::array<int, 2> ends{};
  REQUIRE(pipe(ends.data()) == 0);
  std::array<pollfd, 1> watched = {{{ends[0], POLLIN, 0}}};
  const auto start = Clock::now();
  std::thread interrupter([self = pthread_self()] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    pthread_kill(self, SIGUSR1);
  });
  CHECK_FALSE(awaitAny(watched, Deadline::in(30)));
  CHECK(msSince(start) >= 30);
  CHECK(watched[0].revents == 0);
  interrupter.join();
  REQUIRE(write(ends[1], "x", 1) == 1);
  CHECK(awaitAny(watched, Deadline::in(60000)));
  CHECK(watched[0].revents == POLLIN);
  close(ends[0]);
  close(ends[1]);
}

TEST_CASE("patience looks a few times whatever the time is, and ends at the deadline") {
  for (const uint64_t ms : {uint64_t{0}, uint64_t{20}}) {
    Patience patience(Deadline::in(ms));
    int looks = 0;
    while (patience.rest()) ++looks;
    CHECK(looks >= 4);
    CHECK_FALSE(patience.rest());
  }
}

TEST_CASE("patience that is renewed looks at once again") {
  Patience patience(Deadline::in(0));
  while (patience.rest()) continue;
  patience.renew();
  CHECK(patience.rest());
}

}  // namespace
}  // namespace sparsecoll
