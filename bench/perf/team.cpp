#include "bench/perf/team.h"

#include <exception>
#include <mutex>
#include <thread>

#include "bench/perf/device.h"
#include "bench/perf/library.h"

namespace bench {

Team::Team(int ranks, int device) : comms_(static_cast<size_t>(ranks)), device_(device) {
  const std::vector<int> devices(comms_.size(), device);
  check(sparsecollCommInitAll(comms_.data(), ranks, onDevice() ? devices.data() : nullptr, nullptr),
        "sparsecollCommInitAll");
}

Team::~Team() {
  for (sparsecollComm_t comm : comms_) sparsecollCommDestroy(comm);
}

void Team::run(const std::function<void(Rank&)>& work) {
  std::barrier<> barrier(ranks());
  std::atomic<bool> failed{false};
  std::mutex mutex;
  std::exception_ptr first;
  const auto onRank = [&](int index) {
    Rank rank{index, ranks(), comms_[static_cast<size_t>(index)], barrier, failed, device_};
    try {
      if (onDevice()) useDevice(device_);
      work(rank);
    } catch (...) {
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
    std::vector<std::jthread> threads;
    for (int index = 0; index < ranks(); ++index) threads.emplace_back(onRank, index);
  }
  if (first != nullptr) std::rethrow_exception(first);
}

}  // namespace bench
