// A warm-up over NCCL: frames travel whole, so a stage may not have larger ones than it needs.
#include <cmath>
#include <cstring>
#include <ostream>
#include <string>

#include "tests/nccl/nccl_ranks.h"
#include "tests/support/catch.h"
#include "tests/support/node_groups.h"
#include "tests/support/presets.h"
#include "tests/support/same_steps.h"

using namespace sparsecoll::test;

namespace {

constexpr uint64_t kLength = 10007;
constexpr double kDensity = 0.005;  // after the warm-up
constexpr double kDensities[] = {0.25, 0.06};
constexpr int kSteps = 3;

double densityAt(int step) { return static_cast<size_t>(step) < std::size(kDensities) ? kDensities[step] : kDensity; }

sparsecollReducerConfig_t warmUp() {
  sparsecollReducerConfig_t config = SPARSECOLL_INIT(sparsecollReducerConfig_t);
  config.densitySchedule = kDensities;
  config.densityScheduleCount = std::size(kDensities);
  config.scheduleSteps = 1;
  return config;
}

struct Cost {
  uint64_t bytes, workspace;
  bool operator==(const Cost&) const = default;
};
std::ostream& operator<<(std::ostream& to, const Cost& cost) {
  return to << cost.bytes << " bytes a step, workspace of " << cost.workspace;
}

Cost costOf(const NcclGroup& group) {
  return {statsOf(group.reducer(0)).lastBytesSent, infoOf(group.reducer(0)).workspaceBytes};
}

void fill(NcclGroup& group, uint64_t seed) { fillRandom(group.gradients, seed); }

}  // namespace

TEST_CASE("a step of a warm-up has the bits of one in host memory, with every method") {
  const NcclRanks ranks(3);
  for (const std::string& name : sparsePresets()) {
    CAPTURE(name);
    const sparsecollReducerConfig_t config = warmUp();
    const sparsecollParams_t params = preset(name.c_str(), kDensity);
    Group host(3, kLength, sparsecollFloat32, params, &config);
    NcclGroup nccl(ranks, kLength, sparsecollFloat32, params, &config);
    checkSameSteps(host, nccl, kSteps + 1);
    checkNothingLeft();
  }
}

TEST_CASE("a stage sends and holds what a reducer of its density does, with every method") {
  const NcclRanks ranks(2);
  for (const std::string& name : sparsePresets())
    for (const bool nodes : {false, true}) {
      CAPTURE(name, nodes);
      const auto paramsFor = [&](double density) {
        const sparsecollParams_t params = preset(name.c_str(), density);
        return nodes ? overNodes(params) : params;
      };
      const sparsecollReducerConfig_t config = warmUp();
      NcclGroup group(ranks, kLength, sparsecollFloat32, paramsFor(kDensity), &config);
      for (int step = 0; step < kSteps; ++step) {
        CAPTURE(step);
        NcclGroup plain(ranks, kLength, sparsecollFloat32, paramsFor(densityAt(step)));
        fill(group, 1);
        fill(plain, 1);
        REQUIRE(group.step() == all(2, sparsecollSuccess));
        REQUIRE(plain.step() == all(2, sparsecollSuccess));
        CHECK(costOf(group) == costOf(plain));
      }
      checkNothingLeft();
    }
}

TEST_CASE("counts go on when a stage begins") {
  const NcclRanks ranks(2);
  const sparsecollReducerConfig_t config = warmUp();
  NcclGroup group(ranks, kLength, sparsecollFloat32, preset("topka", kDensity), &config);
  for (int step = 0; step < kSteps; ++step) {
    fill(group, 1 + static_cast<uint64_t>(step));
    if (step == 0) group.gradients[1].set(7, NAN);
    REQUIRE(group.step() == all(2, sparsecollSuccess));
  }
  const sparsecollStats_t stats = statsOf(group.reducer(0));
  CHECK(stats.opsCompleted == kSteps);
  CHECK(stats.opsNonFinite == 1);
}

TEST_CASE("steps are captured once the last stage has begun") {
  const NcclRanks ranks(2);
  const sparsecollReducerConfig_t config = warmUp();
  NcclGroup group(ranks, kLength, sparsecollFloat32, preset("micro", kDensity), &config);
  Group host(2, kLength, sparsecollFloat32, preset("micro", kDensity), &config);
  checkSameSteps(host, group, kSteps);
  RankGraphs graphs(2);
  REQUIRE(ranks.each([&](int rank) {
    return captureGraph(ranks.stream(rank), &graphs[rank], [&] { return group.run(rank); });
  }) == all(2, sparsecollSuccess));
  for (uint64_t round = 0; round < 3; ++round) {
    host.fillRandom(50 + round);
    for (size_t r = 0; r < 2; ++r)
      std::memcpy(group.gradients[r].data(), host.gradients[r].data(), host.gradients[r].byteCount());
    REQUIRE(host.step() == all(2, sparsecollSuccess));
    REQUIRE(ranks.each([&](int rank) {
      if (cudaGraphLaunch(graphs[rank], ranks.stream(rank)) != cudaSuccess) return sparsecollCudaError;
      return sparsecollCommWait(ranks[rank], ranks.stream(rank), 60000);
    }) == all(2, sparsecollSuccess));
    CHECK(group.outs == host.outs);
  }
  checkNothingLeft();
}

TEST_CASE("a schedule that begins anew is not captured before it is over again") {
  const NcclRanks ranks(2);
  const sparsecollReducerConfig_t config = warmUp();
  NcclGroup group(ranks, kLength, sparsecollFloat32, preset("topka", kDensity), &config);
  fill(group, 1);
  for (int step = 0; step < kSteps; ++step) REQUIRE(group.step() == all(2, sparsecollSuccess));
  const auto capture = [&] {
    RankGraphs graphs(2);
    return ranks.each(
        [&](int rank) { return captureGraph(ranks.stream(rank), &graphs[rank], [&] { return group.run(rank); }); });
  };
  REQUIRE(ranks.each([&](int rank) { return sparsecollReducerReset(group.reducer(rank), ranks.stream(rank)); }) ==
          all(2, sparsecollSuccess));
  for (int step = 0; step < kSteps; ++step) {
    CHECK(capture() == all(2, sparsecollUnsupported));
    REQUIRE(group.step() == all(2, sparsecollSuccess));
  }
  CHECK(capture() == all(2, sparsecollSuccess));
  checkNothingLeft();
}

TEST_CASE("a rank that alone begins a schedule anew: frames of two sizes, so Timeout") {
  sparsecollConfig_t config = SPARSECOLL_INIT(sparsecollConfig_t);
  config.opTimeoutMs = 300;
  const NcclRanks ranks(2, &config);
  const sparsecollReducerConfig_t stages = warmUp();
  NcclGroup group(ranks, kLength, sparsecollFloat32, preset("topka", kDensity), &stages);
  fill(group, 1);
  for (int step = 0; step < kSteps; ++step) REQUIRE(group.step() == all(2, sparsecollSuccess));
  REQUIRE(sparsecollReducerReset(group.reducer(1), ranks.stream(1)) == sparsecollSuccess);
  CHECK(group.step() == all(2, sparsecollTimeout));
  CHECK_FALSE(fake::misuse().empty());  // the test's own NCCL sees what a real one would hang in
  fake::reset();
  for (int rank = 0; rank < 2; ++rank) CHECK(cudaStreamSynchronize(ranks.stream(rank)) == cudaSuccess);
}
