#include "tests/simt/worker.h"

#include <chrono>
#include <unordered_set>

#include "tests/simt/state.h"

namespace simt {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kPause = std::chrono::microseconds(20);

struct Workers {
  std::mutex mutex;
  std::unordered_set<Worker*> all;
};
// Never destroyed: the last worker may be a static stream's.
Workers& workers() {
  static Workers& instance = *new Workers;
  return instance;
}

}  // namespace

Worker::Worker() : thread_([this] { run(); }) {
  const std::scoped_lock lock(workers().mutex);
  workers().all.insert(this);
}

Worker::~Worker() {
  {
    const std::scoped_lock lock(workers().mutex, mutex_);
    workers().all.erase(this);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Worker::add(std::function<void()> run, std::function<bool()> ready) {
  const std::scoped_lock lock(mutex_);
  work_.push_back({std::move(run), std::move(ready)});
  changed_.notify_all();
}

bool Worker::idle() {
  const std::scoped_lock lock(mutex_);
  return work_.empty();
}

bool Worker::rests() {
  const std::scoped_lock lock(mutex_);
  return work_.empty() || (stands_ && !work_.front().ready());
}

bool Worker::drain() {
  const auto patience = std::chrono::milliseconds(patienceMilliseconds());
  std::unique_lock lock(mutex_);
  auto end = Clock::now() + patience;
  uint64_t seen = done_;
  while (!changed_.wait_for(lock, std::chrono::milliseconds(1), [&] { return work_.empty(); })) {
    if (!stands_ || done_ != seen) end = Clock::now() + patience;
    seen = done_;
    if (Clock::now() <= end) continue;
    report(Misuse::deadlock, "a stream waited in vain for what is to come before its work");
    return false;
  }
  return true;
}

void Worker::drainAll() {
  const auto allRest = [] {
    const std::scoped_lock lock(workers().mutex);
    for (Worker* worker : workers().all) {
      if (!worker->rests()) return false;
    }
    return true;
  };
  while (!allRest()) std::this_thread::sleep_for(kPause);
}

void Worker::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return ends_ || !work_.empty(); });
    if (work_.empty()) return;
    Work& first = work_.front();  // stays where it is while others are added
    lock.unlock();
    const bool ready = !first.ready || first.ready();
    if (ready) {
      {
        const std::scoped_lock now(mutex_);
        stands_ = false;
      }
      first.run();
    }
    lock.lock();
    stands_ = !ready;
    if (ready) {
      work_.pop_front();
      ++done_;
      changed_.notify_all();
    } else if (ends_) {
      return;
    } else {
      changed_.wait_for(lock, kPause, [&] { return ends_; });
    }
  }
}

}  // namespace simt
