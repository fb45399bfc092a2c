#include "tests/simt/worker.h"

#include <unordered_set>

namespace simt {
namespace {

struct Workers {
  std::mutex mutex;
  std::unordered_set<Worker*> all;
};
Workers& workers() {
  static Workers instance;
  return instance;
}

}  // namespace

Worker::Worker() : thread_([this] { run(); }) {
  const std::scoped_lock lock(workers().mutex);
  workers().all.insert(this);
}

Worker::~Worker() {
  drain();
  {
    const std::scoped_lock lock(workers().mutex, mutex_);
    workers().all.erase(this);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Worker::add(std::function<void()> work) {
  const std::scoped_lock lock(mutex_);
  work_.push_back(std::move(work));
  changed_.notify_all();
}

bool Worker::idle() {
  const std::scoped_lock lock(mutex_);
  return work_.empty();
}

void Worker::drain() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return work_.empty(); });
}

void Worker::drainAll() {
  const auto allIdle = [] {
    const std::scoped_lock lock(workers().mutex);
    for (Worker* worker : workers().all) {
      if (!worker->idle()) return false;
    }
    return true;
  };
  while (!allIdle()) std::this_thread::sleep_for(std::chrono::microseconds(20));
}

void Worker::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return ends_ || !work_.empty(); });
    if (work_.empty()) return;
    lock.unlock();
    work_.front()();
    lock.lock();
    work_.pop_front();
    changed_.notify_all();
  }
}

}  // namespace simt
