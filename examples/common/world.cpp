// SPDX-License-Identifier: Apache-2.0
#include "examples/common/world.h"

#include <sparsecoll/launch.h>

#include <exception>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>

#include "examples/common/check.h"

namespace examples {

namespace {

class ThreadComms {
 public:
  ThreadComms(size_t ranks, const std::vector<int>& devices, const char* name) : comms_(ranks) {
    auto config = SPARSECOLL_INIT(sparsecollConfig_t);
    config.transport = sparsecollTransportThreads;
    config.name = name;
    check(sparsecollCommInitAll(comms_.data(), static_cast<int>(ranks), devices.empty() ? nullptr : devices.data(),
                                &config),
          "sparsecollCommInitAll");
  }
  ~ThreadComms() {
    for (const auto comm : comms_) sparsecollCommDestroy(comm);
  }
  ThreadComms(const ThreadComms&) = delete;
  ThreadComms& operator=(const ThreadComms&) = delete;

  size_t size() const { return comms_.size(); }
  sparsecollComm_t operator[](size_t rank) const { return comms_[rank]; }

 private:
  std::vector<sparsecollComm_t> comms_;
};

class ThreadWorld : public World {
 public:
  ThreadWorld(size_t ranks, const std::vector<int>& devices) : gradients_(ranks, devices, "gradients") {
    if (!devices.empty()) control_ = std::make_unique<ThreadComms>(ranks, std::vector<int>{}, "control");
  }

  size_t ranks() const override { return gradients_.size(); }
  std::vector<size_t> localRanks() const override {
    std::vector<size_t> all(ranks());
    for (size_t rank = 0; rank < all.size(); ++rank) all[rank] = rank;
    return all;
  }
  sparsecollComm_t comm(size_t rank) const override { return gradients_[rank]; }
  sparsecollComm_t control(size_t rank) const override { return control_ ? (*control_)[rank] : gradients_[rank]; }

 private:
  ThreadComms gradients_;
  std::unique_ptr<ThreadComms> control_;
};

/// One rank of a job, in a process of its own.
class LaunchedWorld : public World {
 public:
  LaunchedWorld(const sparsecollLaunch_t& launch, const std::vector<int>& devices)
      : ranks_(static_cast<size_t>(launch.size)), rank_(static_cast<size_t>(launch.rank)) {
    control_ = join(SPARSECOLL_HOST);
    if (!devices.empty()) gradients_ = join(devices.at(rank_));
  }

  size_t ranks() const override { return ranks_; }
  std::vector<size_t> localRanks() const override { return {rank_}; }
  sparsecollComm_t comm(size_t) const override { return gradients_ ? gradients_.get() : control_.get(); }
  sparsecollComm_t control(size_t) const override { return control_.get(); }

 private:
  struct Destroy {
    void operator()(sparsecollComm_t comm) const { sparsecollCommDestroy(comm); }
  };
  using OwnedComm = std::unique_ptr<std::remove_pointer_t<sparsecollComm_t>, Destroy>;

  static OwnedComm join(int device) {
    sparsecollComm_t comm = nullptr;
    check(sparsecollCommInitEnv(&comm, device, nullptr), "sparsecollCommInitEnv");
    return OwnedComm(comm);
  }

  size_t ranks_, rank_;
  OwnedComm control_, gradients_;
};

sparsecollLaunch_t readLaunch() {
  sparsecollLaunch_t launch;
  sparsecollLaunchRead(&launch);
  return launch;
}

bool canMeet(const sparsecollLaunch_t& launch) {
  return launch.host[0] != '\0' || launch.path[0] != '\0' || launch.service != nullptr;
}

}  // namespace

void World::abort(size_t rank) const {
  sparsecollCommAbort(comm(rank));
  if (control(rank) != comm(rank)) sparsecollCommAbort(control(rank));
}

void World::run(const std::function<void(size_t)>& body) const {
  std::mutex mutex;
  std::string firstFailure;
  const auto guarded = [&](size_t rank) {
    try {
      body(rank);
    } catch (const std::exception& error) {
      const std::lock_guard lock(mutex);
      if (firstFailure.empty()) firstFailure = "rank " + std::to_string(rank) + ": " + error.what();
      abort(rank);
    }
  };
  std::vector<std::thread> threads;
  for (const size_t rank : localRanks()) threads.emplace_back(guarded, rank);
  for (auto& thread : threads) thread.join();
  if (!firstFailure.empty()) throw std::runtime_error(firstFailure);
}

void World::sum(size_t rank, std::vector<double>& values) const {
  auto params = SPARSECOLL_INIT(sparsecollParams_t);
  check(sparsecollPreset("dense", &params), "sparsecollPreset");
  check(sparsecollAllReduce(values.data(), values.data(), values.size(), sparsecollFloat64, &params, control(rank),
                            nullptr),
        "sparsecollAllReduce");
}

void World::barrier(size_t rank) const {
  std::vector<double> nothing(1);
  sum(rank, nothing);
}

size_t launchedRanks() {
  const auto launch = readLaunch();
  if (const char* const problem = sparsecollLaunchProblem(&launch))
    throw std::runtime_error("rank " + std::to_string(launch.rank) + " of " + std::to_string(launch.size) +
                             " cannot find the others: " + problem);
  return canMeet(launch) ? static_cast<size_t>(launch.size) : 0;
}

size_t numberOnHost(size_t rank) {
  const auto launch = readLaunch();
  const bool known = canMeet(launch) && static_cast<size_t>(launch.rank) == rank && launch.localRank >= 0;
  return known ? static_cast<size_t>(launch.localRank) : rank;
}

std::string launchCommand() {
  const auto launch = readLaunch();
  if (!canMeet(launch)) return "";
  const std::string by = launch.by, size = std::to_string(launch.size);
  if (by == "RANK") return "torchrun --no_python --nproc_per_node RANKS-PER-HOST ";
  if (by == "sparsecoll-run") return "sparsecoll-run -n " + size + " -- ";
  const std::string starter = by == "Slurm" ? "srun" : by == "Open MPI" ? "mpirun" : "mpiexec";
  return starter + " -n " + size + " ";
}

std::unique_ptr<World> openWorld(size_t ranks, const std::vector<int>& devices) {
  if (launchedRanks() > 0) return std::make_unique<LaunchedWorld>(readLaunch(), devices);
  return std::make_unique<ThreadWorld>(ranks, devices);
}

}  // namespace examples
