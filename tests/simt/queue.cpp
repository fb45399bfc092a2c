#include "tests/simt/queue.h"

#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "tests/simt/device.h"
#include "tests/simt/state.h"

namespace simt {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kPause = std::chrono::microseconds(20);

struct Queues {
  std::mutex mutex;
  std::unique_ptr<Queue> all[kMostDevices][kMostConnections];
  uint64_t random = connectionsSeed();
};
Queues& queues() {
  static Queues instance;
  return instance;
}

// Those of a device that were ever used.
std::vector<Queue*> used(int device) {
  std::vector<Queue*> found;
  const std::scoped_lock lock(queues().mutex);
  for (const auto& queue : queues().all[device])
    if (queue) found.push_back(queue.get());
  return found;
}

}  // namespace

Queue& Queue::take(int device) {
  const auto count = static_cast<size_t>(connections());
  const std::scoped_lock lock(queues().mutex);
  auto& all = queues().all[device];
  Queue* best = nullptr;
  uint64_t ties = 0;
  for (size_t q = 0; q < count; ++q) {
    if (!all[q]) all[q] = std::make_unique<Queue>();
    if (all[q]->streams_ == 0) {  // the first of these: threads of queues, and their fibers' stacks, stay
      best = all[q].get();
      break;
    }
    if (best && all[q]->streams_ > best->streams_) continue;
    if (!best || all[q]->streams_ < best->streams_) ties = 0;
    queues().random = queues().random * 6364136223846793005u + 1442695040888963407u;
    if ((queues().random >> 33) % ++ties == 0) best = all[q].get();
  }
  ++best->streams_;
  return *best;
}

void Queue::give() {
  const std::scoped_lock lock(queues().mutex);
  --streams_;
}

Queue::~Queue() {
  drop();
  {
    const std::scoped_lock lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

uint64_t Queue::add(std::function<void()> run, std::function<bool()> ready) {
  const std::scoped_lock lock(mutex_);
  if (!thread_.joinable()) thread_ = std::thread([this] { this->run(); });
  work_.push_back({std::move(run), std::move(ready)});
  changed_.notify_all();
  return ++added_;
}

uint64_t Queue::lastTicket() {
  const std::scoped_lock lock(mutex_);
  return added_;
}

bool Queue::idle() {
  const std::scoped_lock lock(mutex_);
  return work_.empty();
}

bool Queue::done(uint64_t ticket) {
  const std::scoped_lock lock(mutex_);
  return done_ >= ticket;
}

bool Queue::await(uint64_t ticket) {
  return awaitThat([&] { return done_ >= ticket; }, "a stream waited in vain for what is to come before its work");
}

template <class Done>
bool Queue::awaitThat(Done done, const char* why) {
  const auto patience = std::chrono::milliseconds(patienceMilliseconds());
  std::unique_lock lock(mutex_);
  auto end = Clock::now() + patience;
  uint64_t seen = done_;
  while (!changed_.wait_for(lock, std::chrono::milliseconds(1), done)) {
    if (!stands_ || done_ != seen) end = Clock::now() + patience;
    seen = done_;
    if (Clock::now() <= end) continue;
    report(Misuse::deadlock, why);
    return false;
  }
  return true;
}

bool Queue::awaitDevice(int device, const char* why) {
  const std::vector<Queue*> all = used(device);
  return std::ranges::all_of(all, [why](Queue* queue) {
    const uint64_t last = queue->lastTicket();
    return queue->awaitThat([=] { return queue->done_ >= last; }, why);
  });
}

void Queue::dropAll() {
  for (int device = 0; device < kMostDevices; ++device)
    for (Queue* const queue : used(device)) queue->drop();
}

// The first one may be under way: then it stays, and sees for itself that it was given up.
void Queue::drop() {
  giveUpWaits();
  std::unique_lock lock(mutex_);
  while (work_.size() > 1) {
    work_.pop_back();
    ++done_;
  }
  if (!work_.empty()) work_.front().ready = [] { return true; };
  if (!work_.empty() && stands_) work_.front().run = [] {};
  changed_.notify_all();
  changed_.wait(lock, [&] { return work_.empty(); });
}

void Queue::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return ends_ || !work_.empty(); });
    if (work_.empty()) return;
    const Work first = work_.front();
    lock.unlock();
    const bool ready = !first.ready || first.ready();
    lock.lock();
    stands_ = !ready;
    if (!ready) {
      changed_.wait_for(lock, kPause);
      continue;
    }
    const Work now = work_.front();  // it may have been dropped
    lock.unlock();
    now.run();
    lock.lock();
    work_.pop_front();
    ++done_;
    changed_.notify_all();
  }
}

}  // namespace simt
