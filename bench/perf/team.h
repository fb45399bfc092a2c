// Ranks as threads of this process, or one of a world of processes.
#pragma once

#include <atomic>
#include <barrier>
#include <functional>
#include <vector>

#include "bench/common/errors.h"
#include "bench/perf/world.h"
#include "sparsecoll/sparsecoll.h"

namespace bench {

inline constexpr int kHost = SPARSECOLL_HOST;

struct Rank {
  int index;
  int ranks;
  sparsecollComm_t comm;
  std::barrier<>& barrier;
  const std::atomic<bool>& failed;
  int device;    // ordinal; kHost: vectors lie in host memory
  World* world;  // nullptr: all ranks are in this process

  // Waits for the other ranks. Throws EnvironmentError if one of them has failed: what it owned is gone.
  void sync() {
    if (world != nullptr) return world->sync();
    barrier.arrive_and_wait();
    if (failed) throw EnvironmentError("another rank failed");
  }
  // Every process gets what each rank has put into its own slot. After sync.
  template <class T>
  void share(std::vector<T>& perRank) const {
    if (world != nullptr) world->share(perRank);
  }
  // The first rank of its process, which keeps what all ranks come to together.
  bool leads() const { return index == 0 || world != nullptr; }
  bool onDevice() const { return device != kHost; }
  size_t slot() const { return static_cast<size_t>(index); }
  // This rank's share of n things: [begin, end).
  uint64_t begin(uint64_t n) const { return n * static_cast<uint64_t>(index) / static_cast<uint64_t>(ranks); }
  uint64_t end(uint64_t n) const { return n * (static_cast<uint64_t>(index) + 1) / static_cast<uint64_t>(ranks); }
};

class Team {
 public:
  // device: the one that all ranks share; kHost: none. world: of as many ranks, or nullptr for threads.
  explicit Team(int ranks, int device = kHost, World* world = nullptr);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int ranks() const { return ranks_; }
  World* world() const { return world_; }
  bool onDevice() const { return device_ != kHost; }
  // By rank: equal where one clock tells their times.
  std::vector<int> clocks() const;
  sparsecollComm_t comm(size_t rank) const { return comms_[rank]; }
  // Runs work on every rank at once. If one fails, the others are made to stop, and the first failure is thrown here.
  void run(const std::function<void(Rank&)>& work);

 private:
  std::vector<sparsecollComm_t> comms_;  // of the ranks in this process
  int ranks_;
  int device_;
  World* world_;
};

}  // namespace bench
