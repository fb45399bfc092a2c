#include "bench/perf/team.h"

#include <fmt/core.h>

#include <cerrno>
#include <exception>
#include <mutex>
#include <thread>

#include "bench/perf/device.h"
#include "bench/perf/library.h"

namespace bench {

Team::Team(int ranks, int device, World* world)
    : comms_(world != nullptr ? 1 : static_cast<size_t>(ranks)), ranks_(ranks), device_(device), world_(world) {
  if (world != nullptr) {
    comms_[0] = world->connect();
    return;
  }
  const std::vector<int> devices(comms_.size(), device);
  check(sparsecollCommInitAll(comms_.data(), ranks, onDevice() ? devices.data() : nullptr, nullptr),
        "sparsecollCommInitAll");
}

Team::~Team() {
  for (sparsecollComm_t comm : comms_) sparsecollCommDestroy(comm);
}

std::vector<int> Team::clocks() const {
  std::vector<int> clocks(static_cast<size_t>(ranks_));
  for (size_t r = 0; world_ != nullptr && r < clocks.size(); ++r) clocks[r] = world_->places()[r].clock;
  return clocks;
}

void Team::run(const std::function<void(Rank&)>& work) {
  const auto here = static_cast<std::ptrdiff_t>(comms_.size());
  std::barrier<> barrier(here);
  std::atomic<bool> failed{false};
  std::mutex mutex;
  std::exception_ptr first;
  const auto onRank = [&](int local) {
    const int index = world_ != nullptr ? world_->rank() : local;
    Rank rank{index, ranks(), comms_[static_cast<size_t>(local)], barrier, failed, device_, world_};
    try {
      if (onDevice()) useDevice(device_);
      work(rank);
    } catch (const std::exception& error) {
      if (world_ != nullptr) {
        fmt::print(stderr, "{}: rank {}: {}\n", program_invocation_short_name, index, error.what());
        world_->fail(kEnvironment);  // the others wait for this one
      }
      {
        const std::lock_guard lock(mutex);
        if (first == nullptr) first = std::current_exception();
      }
      failed = true;
      sparsecollCommAbort(rank.comm);
      barrier.arrive_and_drop();
    }
  };
  {
    if (world_ != nullptr) return onRank(0);  // an engine may be bound to the thread that has made it
    std::vector<std::jthread> threads;
    for (int local = 0; local < here; ++local) threads.emplace_back(onRank, local);
  }
  if (first != nullptr) std::rethrow_exception(first);
}

}  // namespace bench
