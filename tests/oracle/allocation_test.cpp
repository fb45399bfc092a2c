// A step allocates nothing, and a reducer holds what it says and no more than its method declares.
#include "tests/support/catch.h"

#include <barrier>
#include <iostream>

#include "tests/support/malloc_hooks.h"
#include "tests/support/node_groups.h"

using namespace sparsecoll::test;

namespace {

struct Row {
  const char* name;
  const char* preset;
  bool faithful;
  uint32_t flags;
  bool transactional;
  int ranks;
  sparsecollDataType_t type;
  double density;
  double momentum = 0;
  double clipNorm = 0;
  bool scheduled = false;
  bool halfDense = false;  // the first half is a tensor that is sent dense
  int perNode = 0;         // not 0: the preset between nodes of so many ranks
};

constexpr Row kRows[] = {
    {"dense", "dense", false, 0, false, 4, sparsecollFloat32, 0},
    {"dense f16 accumulate", "dense", false, SPARSECOLL_ACCUMULATE, false, 3, sparsecollFloat16, 0},
    {"topka", "topka", false, 0, false, 4, sparsecollFloat32, 0.01},
    {"topka alone", "topka", false, 0, false, 1, sparsecollFloat32, 0.5},
    {"topka full", "topka", false, 0, false, 2, sparsecollFloat64, 1},
    {"topka f16 transactional", "topka", false, 0, true, 3, sparsecollFloat16, 0.001},
    {"topka preserved", "topka", false, SPARSECOLL_OUT_PRESERVED, false, 2, sparsecollBfloat16, 0.05},
    {"topka without residual", "topka", false, SPARSECOLL_NO_RESIDUAL, false, 2, sparsecollFloat32, 0.05},
    {"topka nothing", "topka", false, SPARSECOLL_SELECT_NOTHING, false, 2, sparsecollFloat32, 0},
    {"threshold", "threshold", false, 0, false, 4, sparsecollFloat32, 0.01},
    {"threshold alone", "threshold", false, 0, true, 1, sparsecollFloat64, 0.1},
    {"micro", "micro", false, 0, false, 4, sparsecollFloat32, 0.01},
    {"micro f64", "micro", false, SPARSECOLL_ACCUMULATE, true, 2, sparsecollFloat64, 0.1},
    {"micro faithful", "micro", true, 0, false, 4, sparsecollFloat32, 0.01},
    {"micro faithful alone", "micro", true, 0, false, 1, sparsecollFloat64, 0.01},
    {"sage", "sage", false, 0, false, 4, sparsecollFloat32, 0.01},
    {"sage faithful", "sage", true, 0, false, 2, sparsecollFloat64, 0.001},
    {"sidco-e", "sidco-e", false, 0, false, 4, sparsecollBfloat16, 0.01},
    {"sidco-gp alone", "sidco-gp", false, 0, false, 1, sparsecollFloat32, 0.1},
    {"sidco-p faithful", "sidco-p", true, 0, true, 2, sparsecollFloat32, 0.005},
    {"gaussiank", "gaussiank", false, 0, false, 3, sparsecollFloat32, 0.01},
    {"redsync faithful", "redsync", true, 0, false, 2, sparsecollFloat32, 0.01},
    {"cltk", "cltk", false, 0, false, 4, sparsecollFloat32, 0.01},
    {"dgc", "dgc", false, 0, false, 4, sparsecollFloat32, 0.01},
    {"dgc faithful transactional", "dgc", true, 0, true, 2, sparsecollFloat64, 0.001},
    {"topka momentum clipped", "topka", false, 0, false, 3, sparsecollFloat32, 0.01, 0.9, 1},
    {"micro nesterov transactional", "micro", false, SPARSECOLL_NESTEROV, true, 2, sparsecollFloat64, 0.01, 0.9},
    {"dgc scheduled", "dgc", false, 0, false, 2, sparsecollFloat32, 0.001, 0, 0, true},
    {"topka scheduled, room for all of it", "topka", false, 0, false, 2, sparsecollFloat64, 0.01, 0, 0, true},
    {"deft", "deft", false, 0, false, 4, sparsecollFloat32, 0.01},
    {"deft faithful", "deft", true, 0, true, 3, sparsecollFloat64, 0.01},
    {"exdyna", "exdyna", false, 0, false, 4, sparsecollFloat32, 0.01},
    {"exdyna faithful", "exdyna", true, 0, false, 3, sparsecollFloat32, 0.01},
    {"spardl", "spardl", false, 0, false, 7, sparsecollFloat32, 0.01},
    {"spardl transactional", "spardl", false, 0, true, 4, sparsecollFloat64, 0.05},
    {"spardl-rsag", "spardl-rsag", false, 0, false, 8, sparsecollFloat32, 0.01},
    {"spardl-bsag", "spardl-bsag", false, 0, false, 6, sparsecollBfloat16, 0.01},
    {"gtopk", "gtopk", false, 0, false, 5, sparsecollFloat32, 0.01, 0.9},
    {"gtopk full", "gtopk", true, 0, false, 2, sparsecollFloat32, 1},
    {"oktopk", "oktopk", false, 0, false, 4, sparsecollFloat32, 0.01},
    {"oktopk faithful", "oktopk", true, 0, false, 7, sparsecollFloat32, 0.02},
    {"sparcml-rd", "sparcml-rd", false, 0, false, 6, sparsecollFloat32, 0.01},
    {"sparcml-rd dense", "sparcml-rd", false, 0, false, 4, sparsecollFloat32, 0.3},
    {"sparcml-split", "sparcml-split", false, 0, false, 5, sparsecollFloat64, 0.01},
    {"topkdsa dense", "topkdsa", false, 0, false, 4, sparsecollFloat32, 0.3},
    {"randomk", "randomk", false, 0, false, 3, sparsecollFloat32, 0.01},
    {"rtopk", "rtopk", false, 0, false, 3, sparsecollFloat32, 0.01},
    {"chunk-topk", "chunk-topk", false, 0, false, 4, sparsecollFloat32, 0.015625},
    {"micro 16 ranks", "micro", false, 0, false, 16, sparsecollFloat32, 0.02},
    {"topka half dense", "topka", false, 0, false, 2, sparsecollFloat32, 0.001, 0.9, 0, false, true},
    {"micro half dense, transactional", "micro", false, 0, true, 4, sparsecollFloat64, 0.01, 0, 0, false, true},
    {"spardl half dense", "spardl", false, 0, false, 3, sparsecollFloat16, 0.01, 0.9, 0, false, true},
    {"sparcml-split half dense", "sparcml-split", false, 0, false, 5, sparsecollFloat32, 0.01, 0, 0, false, true},
    {"dgc faithful, half dense", "dgc", true, 0, false, 2, sparsecollFloat32, 0.01, 0.9, 0, false, true},
    {"topka over nodes", "topka", false, SPARSECOLL_OUT_PRESERVED, true, 5, sparsecollBfloat16, 0.01, 0, 0, false,
     false, 3},
    {"spardl over nodes", "spardl", false, 0, false, 6, sparsecollFloat32, 0.01, 0.9, 0, true, true, 2},
    {"dense over nodes", "dense", false, 0, false, 4, sparsecollFloat16, 0, 0, 0, false, false, 2},
    {"topka over nodes, clipped", "topka", false, 0, false, 5, sparsecollFloat32, 0.01, 0.9, 1, false, false, 3},
};

constexpr uint64_t kLength = 60000;

sparsecollParams_t paramsOf(const Row& row) {
  sparsecollParams_t params = preset(row.preset, row.density);
  params.faithful = row.faithful ? 1 : 0;
  params.flags = row.flags;
  if (row.momentum != 0) params.momentum = row.momentum;
  params.clipNorm = row.clipNorm;
  return row.perNode != 0 ? overNodes(params) : params;
}

sparsecollReducerConfig_t configOf(const Row& row, uint64_t n = kLength) {
  sparsecollReducerConfig_t config = SPARSECOLL_INIT(sparsecollReducerConfig_t);
  config.transactional = row.transactional ? 1 : 0;
  static sparsecollSegment_t halves[2];
  if (row.halfDense) {
    halves[0] = {n / 2, 0, 1, 0};
    halves[1] = {n - n / 2, 0, 0, 0};
    config.segments = halves;
    config.segmentCount = 2;
  }
  static constexpr double kSchedule[] = {0.05, 0.04, 0.03, 0.02};
  if (!row.scheduled) return config;
  config.densitySchedule = kSchedule;
  config.densityScheduleCount = 4;
  config.scheduleSteps = 1;
  config.maxDensity = kSchedule[0];  // no step makes room
  return config;
}

bool skipped() {
  if (memory::hooked()) return false;
  std::cout << "skipped: the sanitizer has an allocator of its own\n";
  return true;
}

}  // namespace

TEST_CASE("the hooks see the library's allocations") {
  if (skipped()) return;
  const uint64_t before = memory::allocationsHere();
  const uint64_t live = memory::liveBytes();
  const Ranks ranks(1);
  CHECK(memory::allocationsHere() > before + 3);
  CHECK(memory::liveBytes() > live + 500);
}

TEST_CASE("steps allocate nothing on any rank") {
  if (skipped()) return;
  for (const Row& row : kRows) {
    CAPTURE(row.name);
    const sparsecollReducerConfig_t config = configOf(row);
    const sparsecollConfig_t nodes = nodesOf(row.perNode);
    Group group(row.ranks, kLength, row.type, paramsOf(row), &config, &nodes);
    REQUIRE(group.created() == all(row.ranks, sparsecollSuccess));
    group.fillRandom(1);
    const bool sparse = std::string(row.preset) != "dense";
    const bool givesBack = sparse && (row.flags & (SPARSECOLL_NO_RESIDUAL | SPARSECOLL_ACCUMULATE)) == 0;
    std::vector<uint64_t> counted(static_cast<size_t>(row.ranks));
    const Results results = group.each([&](int rank, sparsecollReducer_t reducer) {
      const auto r = static_cast<size_t>(rank);
      SparseVector vector(row.type, kLength, kLength);
      sparsecollStats_t stats = SPARSECOLL_INIT(sparsecollStats_t);
      uint64_t first = 0;
      sparsecollResult_t result = sparsecollSuccess;
      for (int step = 0; step < 12 && result == sparsecollSuccess; ++step) {
        if (step == 2) first = memory::allocationsHere();  // two steps warm up
        if (step == 8) group.gradients[r].set(r, std::nan(""));
        result = sparsecollReducerRun(reducer, group.gradients[r].data(), group.outs[r].data(), nullptr);
        if (step == 5 && givesBack) result = sparsecollReducerGiveBack(reducer, group.outs[r].data(), 1, nullptr);
        if (step == 6) result = sparsecollReducerFlush(reducer, group.outs[r].data(), nullptr);
        if (step == 7) result = sparsecollReducerReset(reducer, nullptr);
        if (step % 2 == 1 && sparse && row.perNode == 0 && (row.flags & SPARSECOLL_ACCUMULATE) == 0)
          result = sparsecollReducerRunSparse(reducer, group.gradients[r].data(), vector.view(), nullptr);
        if (result == sparsecollSuccess) result = sparsecollReducerGetStats(reducer, &stats);
      }
      counted[r] = memory::allocationsHere() - first;
      return result;
    });
    REQUIRE(results == all(row.ranks, sparsecollSuccess));
    CHECK(counted == std::vector<uint64_t>(static_cast<size_t>(row.ranks), 0));
  }
}

TEST_CASE("trials of auto allocate nothing, nor do steps after them") {
  if (skipped()) return;
  for (const sparsecollDataType_t type : {sparsecollFloat32, sparsecollBfloat16}) {
    CAPTURE(nameOf(type));
    Group group(3, kLength, type, preset("auto", 0.01));
    REQUIRE(group.created() == all(3, sparsecollSuccess));
    group.fillRandom(1);
    std::vector<uint64_t> counted(3);
    REQUIRE(group.each([&](int rank, sparsecollReducer_t reducer) {
      const auto r = static_cast<size_t>(rank);
      sparsecollStats_t stats = SPARSECOLL_INIT(sparsecollStats_t);
      uint64_t first = 0;
      sparsecollResult_t result = sparsecollSuccess;
      for (int step = 0; step < 44 && result == sparsecollSuccess; ++step) {
        if (step == 2) first = memory::allocationsHere();
        result = sparsecollReducerRun(reducer, group.gradients[r].data(), group.outs[r].data(), nullptr);
        if (result == sparsecollSuccess) result = sparsecollReducerGetStats(reducer, &stats);
      }
      counted[r] = memory::allocationsHere() - first;
      return result;
    }) == all(3, sparsecollSuccess));
    CHECK(counted == std::vector<uint64_t>(3, 0));
  }
}

namespace {

struct Measured {
  uint64_t live = 0;        // bytes more on all ranks together after create
  uint64_t peak = 0;        // most during create and steps
  uint64_t workspaces = 0;  // what all ranks say; in a tree they differ
  sparsecollReducerInfo_t info{};
  sparsecollStats_t stats{};
  bool ok = true;
};

Measured measure(const Row& row, const sparsecollReducerConfig_t& config) {
  Measured measured;
  const sparsecollConfig_t nodes = nodesOf(row.perNode);
  const Ranks ranks(row.ranks, &nodes);
  const sparsecollParams_t params = paramsOf(row);
  std::vector<Elements> vectors(2 * static_cast<size_t>(row.ranks), Elements(row.type, kLength, 1.0));
  std::vector<sparsecollReducer_t> reducers(static_cast<size_t>(row.ranks));
  std::barrier gate(row.ranks);
  uint64_t before = 0;
  Results results(reducers.size());
  ranks.run([&](int rank, sparsecollComm_t comm) {
    const auto r = static_cast<size_t>(rank);
    gate.arrive_and_wait();
    if (rank == 0) {
      before = memory::liveBytes();
      memory::resetPeak();
    }
    gate.arrive_and_wait();
    results[r] = sparsecollReducerCreate(&reducers[r], kLength, row.type, &params, &config, comm);
    gate.arrive_and_wait();
    if (rank == 0) measured.live = memory::liveBytes() - before;
    gate.arrive_and_wait();
    for (int step = 0; step < 3 && results[r] == sparsecollSuccess; ++step)
      results[r] = sparsecollReducerRun(reducers[r], vectors[2 * r].data(), vectors[2 * r + 1].data(), nullptr);
    gate.arrive_and_wait();
    if (rank == 0) measured.peak = memory::peakBytes() - before;
  });
  measured.ok = results == all(row.ranks, sparsecollSuccess);
  for (sparsecollReducer_t reducer : reducers) measured.workspaces += infoOf(reducer).workspaceBytes;
  measured.info = infoOf(reducers[0]);
  measured.stats = statsOf(reducers[0]);
  for (sparsecollReducer_t reducer : reducers) (void)sparsecollReducerDestroy(reducer);
  return measured;
}

void checkMemory(const Row& row, const sparsecollReducerConfig_t& config) {
  CAPTURE(row.name);
  const Measured measured = measure(row, config);
  REQUIRE(measured.ok);
  const auto ranks = static_cast<uint64_t>(row.ranks);
  CAPTURE(measured.live, measured.peak, measured.info.workspaceBytes, measured.info.memoryBoundBytes);
  // Objects and tables of the host that workspaceBytes leaves out, and the rest of each large buffer's last page:
  // little, and none of it grows with n.
  const uint64_t tables = 4096 + 1024 * ranks + 6 * 4096;
  CHECK(measured.live >= measured.workspaces);
  CHECK(measured.live <= measured.workspaces + tables * ranks);
  CHECK(measured.stats.workspaceBytes == measured.info.workspaceBytes);
  CHECK(measured.stats.workspacePeakBytes == measured.info.workspaceBytes);
  if (measured.info.collective == sparsecollCollDense) return;
  CHECK(measured.peak <= measured.info.memoryBoundBytes * ranks);
  // A bound that is far off would help nobody. With room for the worst case it is thirteen times what is used.
  CHECK(measured.info.memoryBoundBytes * ranks <= 16 * measured.peak);
}

}  // namespace

TEST_CASE("a reducer holds what workspaceBytes says, within its method's bound") {
  if (skipped()) return;
  for (const Row& row : kRows) checkMemory(row, configOf(row));
}

TEST_CASE("a warm-up stays within the bound that was told at create, and begins anew within it") {
  if (skipped()) return;
  constexpr double kDensities[] = {0.25, 0.05};
  sparsecollReducerConfig_t config = SPARSECOLL_INIT(sparsecollReducerConfig_t);
  config.densitySchedule = kDensities;
  config.densityScheduleCount = 2;
  config.scheduleSteps = 1;
  for (const char* const name : {"topka", "micro", "spardl", "gtopk", "oktopk", "sidco-e", "rtopk", "chunk-topk"}) {
    CAPTURE(name);
    const uint64_t before = memory::liveBytes();
    memory::resetPeak();
    Group group(3, kLength, sparsecollFloat32, preset(name, 0.01), &config);
    const uint64_t bound = group.info().memoryBoundBytes;
    const uint64_t others = memory::liveBytes() - before - 3 * group.info().workspaceBytes;  // vectors among them
    for (int round = 0; round < 2; ++round) {
      for (uint64_t step = 0; step < 4; ++step) {
        group.fillRandom(step);
        REQUIRE(group.step() == all(3, sparsecollSuccess));
        CHECK(group.info().memoryBoundBytes == bound);
      }
      REQUIRE(group.each([](int, sparsecollReducer_t reducer) { return sparsecollReducerReset(reducer, nullptr); }) ==
              all(3, sparsecollSuccess));
    }
    CAPTURE(others, bound, group.stats(0).workspacePeakBytes);
    CHECK(group.stats(0).workspacePeakBytes <= bound);
    CHECK(memory::peakBytes() - before <= 3 * bound + others);
    CHECK(bound <= 32 * group.stats(0).workspacePeakBytes);
  }
}

TEST_CASE("destroying gives everything back") {
  if (skipped()) return;
  const auto cycle = [] {
    for (const Row& row : kRows) {
      const sparsecollReducerConfig_t config = configOf(row, 5000);
      Group group(row.ranks, 5000, row.type, paramsOf(row), &config);
      group.fillRandom(2);
      if (group.step() != all(row.ranks, sparsecollSuccess)) return false;
    }
    return true;
  };
  REQUIRE(cycle());
  const uint64_t before = memory::liveBytes();
  for (int round = 0; round < 5; ++round) REQUIRE(cycle());
  CHECK(memory::liveBytes() <= before + 2048);
}

TEST_CASE("an auto reducer without memory for another candidate's state keeps its residual") {
  constexpr int kTwo = 2;
  const sparsecollChoice_t plan[] = {{0, sparsecollSelectTopK, sparsecollCollAllGather}, {3, 0, sparsecollCollDense}};
  sparsecollReducerConfig_t config = SPARSECOLL_INIT(sparsecollReducerConfig_t);
  config.plan = plan;
  config.planCount = 2;
  Group group(kTwo, 500, sparsecollFloat32, preset("auto", 0.05), &config);
  const auto step = [&](uint64_t seed) {
    group.fillRandom(seed);
    REQUIRE(group.step() == all(kTwo, sparsecollSuccess));
  };
  step(1);
  step(2);
  const Blob blob = exported(group.reducer(0));
  step(3);
  step(4);
  bool refused = true;
  for (uint64_t calls = 0; refused; ++calls) {
    CAPTURE(calls);
    memory::refuseAfter(calls);
    const sparsecollResult_t result = importInto(group.reducer(0), blob);
    refused = memory::refused();
    memory::refuseNone();
    CHECK(result == (refused ? sparsecollOutOfMemory : sparsecollSuccess));
    void* data = nullptr;
    uint64_t n = 0;
    sparsecollDataType_t type = sparsecollFloat32;
    REQUIRE(sparsecollReducerGetResidual(group.reducer(0), &data, &n, &type) == sparsecollSuccess);
    REQUIRE(data != nullptr);
  }
}
