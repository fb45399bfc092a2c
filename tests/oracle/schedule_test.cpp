// Density schedules: which step has which k, after create, Reset and Import too, and that they do what SetDensity does.
#include "tests/support/catch.h"

#include "tests/support/group.h"
#include "tests/support/presets.h"

using namespace sparsecoll::test;

namespace {

constexpr uint64_t kLength = 5000;
constexpr double kDensities[] = {0.25, 0.0625, 0.0156};
constexpr uint64_t kWanted[] = {1250, 1250, 312, 312, 78, 78, 5, 5, 5};  // two steps each, then 0.001

sparsecollReducerConfig_t scheduled(uint64_t steps = 2) {
  sparsecollReducerConfig_t config = SPARSECOLL_INIT(sparsecollReducerConfig_t);
  config.densitySchedule = kDensities;
  config.densityScheduleCount = 3;
  config.scheduleSteps = steps;
  return config;
}

uint64_t stepOnce(Group& group, uint64_t seed) {
  group.fillRandom(seed);
  REQUIRE(group.step() == all(group.count(), sparsecollSuccess));
  return group.stats(0).lastRequested;
}

Results setDensity(const Group& group, double density) {
  return group.each([&](int, sparsecollReducer_t reducer) { return sparsecollReducerSetDensity(reducer, density); });
}

}  // namespace

TEST_CASE("every step has the density that the schedule gives it") {
  const sparsecollReducerConfig_t config = scheduled();
  for (const bool byK : {false, true}) {
    sparsecollParams_t params = preset("topka", byK ? 0 : 0.001);
    params.k = byK ? 5 : 0;
    Group group(2, kLength, sparsecollFloat32, params, &config);
    REQUIRE(group.created() == all(2, sparsecollSuccess));
    CHECK(group.info().k == 1250);
    for (int round = 0; round < 2; ++round) {
      for (uint64_t step = 0; step < 9; ++step) {
        CHECK(stepOnce(group, step) == kWanted[step]);
        CHECK(group.stats(0).lastSelected == kWanted[step]);
        CHECK(group.info().k == kWanted[step]);
      }
      REQUIRE(group.each([](int, sparsecollReducer_t r) { return sparsecollReducerReset(r, nullptr); }) ==
              all(2, sparsecollSuccess));
    }
  }
}

TEST_CASE("a schedule goes on where the blob was written") {
  const sparsecollReducerConfig_t config = scheduled();
  for (uint64_t at = 0; at < 8; ++at) {
    Group first(2, kLength, sparsecollFloat32, preset("dgc", 0.001), &config);
    for (uint64_t step = 0; step < at; ++step) stepOnce(first, step);
    Group second(2, kLength, sparsecollFloat32, preset("dgc", 0.001), &config);
    for (uint64_t step = 0; step < 5; ++step) stepOnce(second, 90 + step);  // a past that must not matter
    for (int rank = 0; rank < 2; ++rank) {
      const std::vector<std::byte> blob = exported(first.reducer(rank));
      REQUIRE(sparsecollReducerImport(second.reducer(rank), blob.data(), blob.size(), nullptr) == sparsecollSuccess);
    }
    for (uint64_t step = at; step < 9; ++step) {
      CHECK(stepOnce(first, step) == kWanted[step]);
      CHECK(stepOnce(second, step) == kWanted[step]);
      CHECK((first.outs[0] == second.outs[0]));
    }
  }
}

TEST_CASE("a schedule is SetDensity at the right steps, with every method") {
  for (const std::string& name : sparsePresets())
    for (const int faithful : {0, 1}) {
      CAPTURE(name, faithful);
      sparsecollParams_t params = preset(name.c_str(), 0.001);
      params.faithful = faithful;
      sparsecollReducerConfig_t config = scheduled();
      config.maxDensity = 0.25;  // else the first threshold is another one, and messages hold less
      Group group(3, kLength, sparsecollFloat32, params, &config);
      sparsecollReducerConfig_t byHand = SPARSECOLL_INIT(sparsecollReducerConfig_t);
      byHand.maxDensity = 0.25;
      Group other(3, kLength, sparsecollFloat32, params, &byHand);
      for (uint64_t step = 0; step < 9; ++step) {
        if (step % 2 == 0 && step < 8)
          REQUIRE(setDensity(other, step < 6 ? kDensities[step / 2] : 0.001) == all(3, sparsecollSuccess));
        CHECK(stepOnce(group, step) == stepOnce(other, step));
        CHECK(group.outsEqual());
        CHECK((group.outs[0] == other.outs[0]));
        CHECK(group.stats(0).lastSelected <= group.info().capacity);
      }
    }
}

TEST_CASE("SetDensity waits for the schedule to end") {
  for (const double most : {0.0, 0.25}) {
    CAPTURE(most);
    sparsecollReducerConfig_t config = scheduled(1);
    config.maxDensity = most;
    Group group(2, kLength, sparsecollFloat32, preset("topka", 0.01), &config);
    for (uint64_t step = 0; step < 3; ++step) {
      CHECK(setDensity(group, 0.002) == all(2, sparsecollInvalidUsage));
      stepOnce(group, step);
    }
    const sparsecollResult_t above = most != 0 ? sparsecollSuccess : sparsecollInvalidArgument;
    CHECK(setDensity(group, 0.02) == all(2, above));
    CHECK(setDensity(group, 0.002) == all(2, sparsecollSuccess));
    CHECK(stepOnce(group, 3) == 10);
    CHECK(stepOnce(group, 4) == 10);
    CHECK(setDensity(group, 0.01) == all(2, sparsecollSuccess));
    CHECK(stepOnce(group, 5) == 50);
    CHECK(setDensity(group, 0.02) == all(2, above));
  }
}

TEST_CASE("what SetDensity asks for behind a schedule is forgotten when that begins anew") {
  const sparsecollReducerConfig_t config = scheduled(1);
  Group group(2, kLength, sparsecollFloat32, preset("topka", 0.01), &config);
  for (uint64_t step = 0; step < 3; ++step) stepOnce(group, step);
  REQUIRE(setDensity(group, 0.002) == all(2, sparsecollSuccess));
  REQUIRE(group.each([](int, sparsecollReducer_t r) { return sparsecollReducerReset(r, nullptr); }) ==
          all(2, sparsecollSuccess));
  for (const uint64_t wanted : {1250, 312, 78, 50, 50}) CHECK(stepOnce(group, wanted) == wanted);
}

TEST_CASE("what SetDensity asks for behind a schedule outlives the Import of a state from there") {
  const sparsecollReducerConfig_t config = scheduled(1);
  Group group(1, kLength, sparsecollFloat32, preset("topka", 0.01), &config);
  for (uint64_t step = 0; step < 3; ++step) stepOnce(group, step);
  const Blob blob = exported(group.reducer(0));
  REQUIRE(setDensity(group, 0.002) == all(1, sparsecollSuccess));
  REQUIRE(importInto(group.reducer(0), blob) == sparsecollSuccess);
  CHECK(stepOnce(group, 3) == 10);
}

TEST_CASE("tensors with a rule of their own keep it") {
  const sparsecollSegment_t segments[] = {{1000, 0, 1, 0}, {2000, 0.01, 0, 0}, {2000, 0, 0, 0}};
  sparsecollReducerConfig_t config = scheduled();
  config.segments = segments;
  config.segmentCount = 3;
  Group group(2, kLength, sparsecollFloat32, preset("topka", 0.001), &config);
  REQUIRE(group.created() == all(2, sparsecollSuccess));
  constexpr uint64_t kThird[] = {500, 500, 125, 125, 31, 31, 2, 2};
  for (uint64_t step = 0; step < 8; ++step) CHECK(stepOnce(group, step) == 1000 + 20 + kThird[step]);
}

TEST_CASE("ranks have the same schedule, and dense has none") {
  Ranks ranks(2);
  const sparsecollParams_t params = preset("topka", 0.001);
  CHECK(onEach(ranks, [&](int rank, sparsecollComm_t comm) {
          const sparsecollReducerConfig_t config = scheduled(rank == 0 ? 2 : 3);
          sparsecollReducer_t reducer = nullptr;
          return sparsecollReducerCreate(&reducer, kLength, sparsecollFloat32, &params, &config, comm);
        }) == all(2, sparsecollMismatch));
  CHECK(std::string(failureOf(ranks[0]).field) == "scheduleSteps");
  const sparsecollReducerConfig_t config = scheduled();
  CHECK(Group(1, kLength, sparsecollFloat32, preset("dense", 0), &config).created() == all(1, sparsecollUnsupported));
  sparsecollParams_t chosen = params;
  chosen.collective = sparsecollCollAuto;
  Group dense(1, kLength, sparsecollFloat32, chosen, &config);
  REQUIRE(dense.created() == all(1, sparsecollSuccess));
  CHECK(dense.info().collective == sparsecollCollDense);
  CHECK(stepOnce(dense, 1) == kLength);
}
