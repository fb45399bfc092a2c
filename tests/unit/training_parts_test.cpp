// SPDX-License-Identifier: Apache-2.0
// Sharding, schedules, ranks and signals of the trainers: what needs no LibTorch.
#include <csignal>
#include <cstdlib>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>
#include "tests/support/catch.h"

#include "examples/common/metric.h"
#include "examples/common/progress.h"
#include "examples/common/schedule.h"
#include "examples/common/shard.h"
#include "examples/common/stop.h"
#include "examples/common/world.h"

using namespace examples;

namespace {

constexpr size_t kSamples = 103, kRanks = 4, kBatch = 5;

std::vector<uint32_t> shard(uint64_t seed, uint64_t epoch, size_t rank, Sharding sharding) {
  return shardIndices(kSamples, {seed, epoch, rank, kRanks, kBatch, sharding});
}

}  // namespace

TEST_CASE("shards: those of the ranks are disjoint and change with seed and epoch") {
  REQUIRE(stepsPerEpoch(kSamples, kRanks, kBatch) == 5);
  for (const auto sharding : {Sharding::Iid, Sharding::Contiguous}) {
    std::vector<uint32_t> all;
    for (size_t rank = 0; rank < kRanks; ++rank) {
      const auto indices = shard(1, 0, rank, sharding);
      REQUIRE(indices.size() == 25);
      all.insert(all.end(), indices.begin(), indices.end());
    }
    std::sort(all.begin(), all.end());
    REQUIRE(std::adjacent_find(all.begin(), all.end()) == all.end());
    REQUIRE(all.back() < kSamples);
    const auto epoch0 = shard(1, 0, 0, sharding);
    REQUIRE(epoch0 == shard(1, 0, 0, sharding));
    REQUIRE(epoch0 != shard(1, 1, 0, sharding));
    REQUIRE(epoch0 != shard(2, 0, 0, sharding));
  }
  REQUIRE(shardIndices(3, {1, 0, 0, kRanks, kBatch, Sharding::Iid}).empty());
}

TEST_CASE("shards: contiguous ones stay in their part of the data") {
  for (size_t rank = 0; rank < kRanks; ++rank) {
    for (const uint32_t index : shard(1, 3, rank, Sharding::Contiguous)) {
      REQUIRE(index >= kSamples * rank / kRanks);
      REQUIRE(index < kSamples * (rank + 1) / kRanks);
    }
  }
}

TEST_CASE("schedule: a rise, then half a cosine to 0 at the end") {
  Settings settings;
  settings.epochs = 4;
  settings.learningRate.peak = 0.8;
  settings.learningRate.warmupEpochs = 0.5;
  const Schedule schedule(settings, 10);
  REQUIRE(schedule.steps() == 40);
  CHECK(schedule.learningRate(0) == Approx(0.16));
  CHECK(schedule.learningRate(4) == Approx(0.8));
  CHECK(schedule.learningRate(5) == Approx(0.8));
  CHECK(schedule.learningRate(22) == Approx(0.8 * 0.5 * (1 + std::cos(3.14159265358979 * 17 / 35))));
  CHECK(schedule.learningRate(39) < 0.01);
}

TEST_CASE("schedule: published steps, from lr / P over ten epochs and a tenth at milestones") {
  Settings settings;
  settings.epochs = 121;
  auto& rate = settings.learningRate;
  rate = {"steps", 0.1, 10, 0.25, {81, 122, 155}, 0.1};
  const Schedule schedule(settings, 100);
  CHECK(schedule.learningRate(0) == Approx(0.025 + 0.075 / 1000));
  CHECK(schedule.learningRate(999) == Approx(0.1));
  CHECK(schedule.learningRate(8099) == Approx(0.1));
  CHECK(schedule.learningRate(8100) == Approx(0.01));
  CHECK(schedule.learningRate(12099) == Approx(0.01));
}

TEST_CASE("schedule: fractions of epochs, limits, and what is due when") {
  Settings settings;
  settings.epochs = 2.5;
  CHECK(Schedule(settings, 10).steps() == 25);
  settings.maxSteps = 7;
  const Schedule schedule(settings, 10);
  CHECK(schedule.steps() == 7);
  std::vector<size_t> due;
  for (size_t step = 1; step <= 30; ++step)
    if (schedule.isDue(0.5, step)) due.push_back(step);
  CHECK(due == std::vector<size_t>{5, 10, 15, 20, 25, 30});
  CHECK_FALSE(schedule.isDue(0, 10));
  CHECK_THROWS_AS(Schedule(settings, 0), std::runtime_error);
}

TEST_CASE("progress: how long it still takes") {
  CHECK(formatDuration(0) == "0 s");
  CHECK(formatDuration(99.4) == "99 s");
  CHECK(formatDuration(100) == "2 min");
  CHECK(formatDuration(59 * 60 + 31) == "60 min");
  CHECK(formatDuration(99.6 * 60) == "1.7 h");
}

TEST_CASE("metric: an accuracy that guessing reaches, too") {
  const Metric metric = accuracy(225, 2000, 10);
  CHECK(metric.name == "test accuracy");
  CHECK(metric.value == 0.1125);
  CHECK(metric.guessed == 0.1);
  CHECK(metric.guessSpread == Approx(0.0067082));
  CHECK(isGuessing(metric));
  CHECK(isGuessing(accuracy(240, 2000, 10)));
  CHECK_FALSE(isGuessing(accuracy(241, 2000, 10)));
  CHECK(isGuessing(accuracy(12500, 25000, 2)));
  CHECK_FALSE(isGuessing(accuracy(13000, 25000, 2)));
  CHECK_FALSE(isGuessing({"perplexity", 0, false}));
}

TEST_CASE("world: a launched rank knows its job, its place on the host and how the job was started") {
  CHECK(launchedRanks() == 0);
  CHECK(launchCommand().empty());
  CHECK(numberOnHost(5) == 5);
  const auto set = [](const char* name, const char* value) { REQUIRE(setenv(name, value, 1) == 0); };
  set("PMI_RANK", "1");
  set("PMI_SIZE", "2");
  CHECK_THROWS_WITH(launchedRanks(), Catch::Contains("rank 1 of 2") && Catch::Contains("SPARSECOLL_LAUNCH_DIR"));
  set("MPI_LOCALNRANKS", "2");
  CHECK(launchedRanks() == 2);
  CHECK(launchCommand() == "mpiexec -n 2 ");
  set("OMPI_COMM_WORLD_RANK", "5");
  set("OMPI_COMM_WORLD_SIZE", "8");
  set("OMPI_COMM_WORLD_LOCAL_RANK", "1");
  set("OMPI_COMM_WORLD_LOCAL_SIZE", "8");
  CHECK(launchedRanks() == 8);
  CHECK(numberOnHost(5) == 1);
  CHECK(launchCommand() == "mpirun -n 8 ");
  for (const char* name : {"PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                           "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"})
    REQUIRE(unsetenv(name) == 0);
}

TEST_CASE("world: ranks are threads that sum up, and the first failure ends all waits") {
  const auto world = openWorld(4, {});
  REQUIRE(world->ranks() == 4);
  std::vector<std::vector<double>> sums(4);
  world->run([&](size_t rank) {
    sums[rank] = {static_cast<double>(rank), 0x1p-60};
    world->sum(rank, sums[rank]);
    world->barrier(rank);
  });
  for (const auto& sum : sums) CHECK(sum == std::vector<double>{6.0, 0x1p-58});

  std::atomic<int> ended{0};
  const auto failing = [&](size_t rank) {
    if (rank == 2) throw std::runtime_error("the data is gone");
    try {
      for (;;) world->barrier(rank);
    } catch (const std::exception&) {
      ++ended;
      throw;
    }
  };
  CHECK_THROWS_WITH(world->run(failing), Catch::Contains("rank 2: the data is gone"));
  CHECK(ended == 3);
}

TEST_CASE("stop: the first signal is a wish") {
  {
    const StopSignal stop;
    CHECK(StopSignal::caught() == 0);
    std::raise(SIGTERM);
    CHECK(StopSignal::caught() == SIGTERM);
  }
  const StopSignal again;
  CHECK(StopSignal::caught() == 0);
}
