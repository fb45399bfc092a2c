#include "core/beside.h"

#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "core/signals.h"

namespace sparsecoll {

namespace {

struct End {
  std::mutex mutex;
  WaitPoint changed;
  bool reached = false;
};

}  // namespace

bool runBeside(std::function<void()> body, const Deadline& deadline) {
  const auto end = std::make_shared<End>();
  std::thread thread;
  {
    const WithoutSignals blocked;
    thread = std::thread([end, body = std::move(body)] {
      body();
      const std::lock_guard lock(end->mutex);
      end->reached = true;
      end->changed.wake();
    });
  }
  std::unique_lock lock(end->mutex);
  const bool inTime = end->changed.wait(lock, deadline, [&] { return end->reached; });
  lock.unlock();
  inTime ? thread.join() : thread.detach();
  return inTime;
}

}  // namespace sparsecoll
