// Room for the stages of a warm-up: what a reducer holds is what the stage asks for, and what it does is what one with
// room for all of them does.
#include <algorithm>
#include <atomic>
#include <string>
#include <thread>

#include "tests/support/catch.h"
#include "tests/support/conserving_step.h"
#include "tests/support/node_groups.h"
#include "tests/support/presets.h"

using namespace sparsecoll::test;

namespace {

constexpr uint64_t kLength = 5000;
constexpr double kDensity = 0.005;  // after the warm-up
constexpr double kDensities[] = {0.25, 0.06, 0.015};
constexpr uint64_t kStageSteps = 2;
constexpr uint64_t kSteps = 9;

double densityAt(uint64_t step) {
  const uint64_t stage = step / kStageSteps;
  return stage < std::size(kDensities) ? kDensities[stage] : kDensity;
}

// most: 0, or room for all stages from the start.
sparsecollReducerConfig_t warmUp(double most = 0) {
  sparsecollReducerConfig_t config = SPARSECOLL_INIT(sparsecollReducerConfig_t);
  config.densitySchedule = kDensities;
  config.densityScheduleCount = std::size(kDensities);
  config.scheduleSteps = kStageSteps;
  config.maxDensity = most;
  return config;
}

sparsecollParams_t paramsOf(const std::string& name, int faithful = 0, double density = kDensity) {
  sparsecollParams_t params = preset(name.c_str(), density);
  params.faithful = faithful;
  return params;
}

void stepOnce(Group& group, uint64_t seed) {
  group.fillRandom(seed);
  REQUIRE(group.step() == all(group.count(), sparsecollSuccess));
  REQUIRE(group.outsEqual());
}

// Their first threshold is a guess from the first density, or their messages have room for more where there is more.
bool dependsOnRoom(const std::string& name, int faithful) {
  if (name == "threshold" || name == "exdyna" || name == "sage") return true;
  return faithful != 0 && (name == "micro" || name == "oktopk");
}

Results reset(const Group& group) {
  return group.each([](int, sparsecollReducer_t reducer) { return sparsecollReducerReset(reducer, nullptr); });
}

}  // namespace

TEST_CASE("a reducer holds what the stage asks for, with every method") {
  for (const std::string& name : sparsePresets())
    for (const int faithful : {0, 1}) {
      CAPTURE(name, faithful);
      const sparsecollReducerConfig_t config = warmUp();
      Group group(3, kLength, sparsecollFloat32, paramsOf(name, faithful), &config);
      REQUIRE(group.created() == all(3, sparsecollSuccess));
      const uint64_t bound = group.info().memoryBoundBytes;
      for (uint64_t step = 0; step < kSteps; ++step) {
        CAPTURE(step);
        stepOnce(group, step);
        const Group plain(3, kLength, sparsecollFloat32, paramsOf(name, faithful, densityAt(step)));
        CHECK(group.info().k == plain.info().k);
        CHECK(group.info().capacity == plain.info().capacity);
        CHECK(group.info().workspaceBytes == plain.info().workspaceBytes);
        CHECK(group.stats(0).lastSelected <= plain.info().capacity);
      }
      CHECK(group.stats(0).workspacePeakBytes <= bound);
    }
}

TEST_CASE("room does not change what a step does, with every method") {
  for (const std::string& name : sparsePresets())
    for (const int faithful : {0, 1}) {
      if (dependsOnRoom(name, faithful)) continue;
      CAPTURE(name, faithful);
      const sparsecollReducerConfig_t config = warmUp();
      const sparsecollReducerConfig_t roomy = warmUp(kDensities[0]);
      Group group(4, kLength, sparsecollFloat32, paramsOf(name, faithful), &config);
      Group other(4, kLength, sparsecollFloat32, paramsOf(name, faithful), &roomy);
      for (uint64_t step = 0; step < 2 * kSteps; ++step) {
        if (step == kSteps) {
          REQUIRE(reset(group) == all(4, sparsecollSuccess));
          REQUIRE(reset(other) == all(4, sparsecollSuccess));
        }
        CAPTURE(step);
        stepOnce(group, step);
        stepOnce(other, step);
        REQUIRE(group.outs == other.outs);
        for (int rank = 0; rank < 4; ++rank) REQUIRE(group.residual(rank) == other.residual(rank));
      }
    }
}

TEST_CASE("nothing is lost when less is sent than before") {
  for (const char* const name : {"topka", "threshold", "micro", "exdyna", "sage", "spardl", "oktopk", "sidco-e"}) {
    CAPTURE(name);
    const sparsecollReducerConfig_t config = warmUp();
    Group group(3, kLength, sparsecollFloat32, paramsOf(name), &config);
    for (uint64_t step = 0; step < kSteps; ++step) conservingStep(group, step);
  }
}

TEST_CASE("a state goes into any stage, forward and back") {
  for (const char* const name : {"topka", "micro", "spardl", "exdyna"})
    for (const uint64_t at : {1, 2, 5, 6, 8})
      for (const uint64_t past : {0, 3, 8}) {
        CAPTURE(name, at, past);
        const sparsecollReducerConfig_t config = warmUp();
        Group first(3, kLength, sparsecollFloat32, paramsOf(name), &config);
        Group second(3, kLength, sparsecollFloat32, paramsOf(name), &config);
        for (uint64_t step = 0; step < at; ++step) stepOnce(first, step);
        for (uint64_t step = 0; step < past; ++step) stepOnce(second, 90 + step);
        for (int rank = 0; rank < 3; ++rank)
          REQUIRE(importInto(second.reducer(rank), exported(first.reducer(rank))) == sparsecollSuccess);
        for (uint64_t step = at; step < kSteps; ++step) {
          stepOnce(first, step);
          stepOnce(second, step);
          REQUIRE(first.outs == second.outs);
          CHECK(first.info().workspaceBytes == second.info().workspaceBytes);
        }
      }
}

TEST_CASE("a sparse sum of the next step has room where Info says so") {
  for (const char* const name : {"topka", "micro"}) {
    CAPTURE(name);
    const sparsecollReducerConfig_t config = warmUp();
    Group group(2, kLength, sparsecollFloat32, paramsOf(name), &config);
    for (uint64_t step = 0; step < kSteps + 2; ++step) {
      CAPTURE(step);
      if (step == kSteps) REQUIRE(reset(group) == all(2, sparsecollSuccess));
      group.fillRandom(step);
      CHECK(group.each([&](int rank, sparsecollReducer_t reducer) {
        const auto room = 2 * (infoOf(reducer).capacity + SPARSECOLL_NON_FINITE_NAMED);
        SparseVector sum(sparsecollFloat32, kLength, std::min(kLength, room));
        return sparsecollReducerRunSparse(reducer, group.gradients[static_cast<size_t>(rank)].data(), sum.view(),
                                          nullptr);
      }) == all(2, sparsecollSuccess));
    }
    CHECK(group.stats(0).lastRequested == 1250);
  }
}

TEST_CASE("over nodes shards have stages too, unless a rank has none") {
  struct Row {
    NodeShape shape;
    bool stages;
  };
  for (const auto& [shape, stages] : {Row{{4, 2}, true}, Row{{3, 2}, false}}) {
    CAPTURE(shape.ranks, shape.perNode);
    const sparsecollConfig_t nodes = nodesOf(shape.perNode);
    const sparsecollReducerConfig_t config = warmUp();
    const sparsecollReducerConfig_t roomy = warmUp(kDensities[0]);
    Group group(shape.ranks, kLength, sparsecollFloat32, overNodes(paramsOf("topka")), &config, &nodes);
    Group other(shape.ranks, kLength, sparsecollFloat32, overNodes(paramsOf("topka")), &roomy, &nodes);
    const uint64_t first = group.info().capacity;
    for (uint64_t step = 0; step < kSteps; ++step) {
      stepOnce(group, step);
      stepOnce(other, step);
      REQUIRE(group.outs == other.outs);
    }
    const Group plain(shape.ranks, kLength, sparsecollFloat32, overNodes(paramsOf("topka")), nullptr, &nodes);
    CHECK(group.info().capacity == (stages ? plain.info().capacity : first));
  }
}

TEST_CASE("ranks without room for two stages at once stay with what they have") {
  const sparsecollReducerConfig_t config = warmUp();
  uint64_t enough = 0;
  uint64_t capacity = 0;
  {
    const Group group(3, kLength, sparsecollFloat32, paramsOf("topka"), &config);
    sparsecollStats_t stats = SPARSECOLL_INIT(sparsecollStats_t);
    REQUIRE(sparsecollGetStats(group.ranks()[0], &stats) == sparsecollSuccess);
    enough = stats.workspacePeakBytes;
    capacity = group.info().capacity;
  }
  sparsecollConfig_t limited = SPARSECOLL_INIT(sparsecollConfig_t);
  limited.workspaceLimitBytes = enough;
  Group group(3, kLength, sparsecollFloat32, paramsOf("topka"), &config, &limited);
  REQUIRE(group.created() == all(3, sparsecollSuccess));
  Group free(3, kLength, sparsecollFloat32, paramsOf("topka"), &config);
  for (uint64_t step = 0; step < kSteps; ++step) {
    stepOnce(group, step);
    stepOnce(free, step);
    CHECK(group.outs == free.outs);
    CHECK(group.info().capacity == capacity);
    CHECK(group.info().k == free.info().k);
  }
  REQUIRE(reset(group) == all(3, sparsecollSuccess));  // the first stage has its room still
  stepOnce(group, 1);
}

TEST_CASE("ranks in different stages learn of it, and go on when they are in one") {
  const sparsecollReducerConfig_t config = warmUp();
  Group group(3, kLength, sparsecollFloat32, paramsOf("topka"), &config);
  for (uint64_t step = 0; step < 3; ++step) stepOnce(group, step);
  REQUIRE(sparsecollReducerReset(group.reducer(1), nullptr) == sparsecollSuccess);
  CHECK(group.step() == all(3, sparsecollMismatch));
  CHECK(group.step() == all(3, sparsecollMismatch));
  REQUIRE(reset(group) == all(3, sparsecollSuccess));
  for (uint64_t step = 0; step < kSteps; ++step) stepOnce(group, step);
}

TEST_CASE("statistics can be asked for while a stage begins") {
  const sparsecollReducerConfig_t config = warmUp();
  Group group(2, kLength, sparsecollFloat32, paramsOf("micro"), &config);
  std::atomic<bool> over = false;
  std::thread asks([&] {
    while (!over) (void)group.stats(0);
  });
  for (int round = 0; round < 20; ++round) {
    for (uint64_t step = 0; step < kSteps; ++step) group.step();
    reset(group);
  }
  over = true;
  asks.join();
  CHECK(group.stats(0).opsCompleted == 20 * kSteps);
}
