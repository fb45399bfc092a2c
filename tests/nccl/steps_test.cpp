// Whole steps over NCCL: the bits of the threads engine in host memory, with calls that wait for nobody.
#include <cmath>
#include <cstring>
#include <functional>
#include <string>

#include "tests/nccl/nccl_ranks.h"
#include "tests/support/catch.h"
#include "tests/support/presets.h"
#include "tests/support/replays.h"
#include "tests/support/same_steps.h"
#include "tests/support/sent_dense.h"

using namespace sparsecoll::test;

namespace {

constexpr int kRankCounts[] = {1, 2, 3, 4, 8};
constexpr uint64_t kLength = 10007;
constexpr int kSteps = 3;

void checkSteps(const NcclRanks& ranks, const std::string& name, uint64_t n, sparsecollDataType_t type,
                const sparsecollParams_t& params, int steps, const sparsecollReducerConfig_t* config = nullptr) {
  const int count = ranks.count();
  CAPTURE(name, count, n, nameOf(type));
  Group host(count, n, type, params, config);
  if (host.created()[0] == sparsecollUnsupported) return;
  NcclGroup nccl(ranks, n, type, params, config);
  checkSameSteps(host, nccl, steps);
  checkNothingLeft();
}

sparsecollConfig_t strict() {
  sparsecollConfig_t config = SPARSECOLL_INIT(sparsecollConfig_t);
  config.nonFinite = sparsecollNonFiniteError;
  return config;
}

sparsecollResult_t capture(const NcclRanks& ranks, NcclGroup& group, RankGraphs& graphs, int rank, int steps) {
  return captureGraph(ranks.stream(rank), &graphs[rank], [&] {
    sparsecollResult_t result = sparsecollSuccess;
    for (int step = 0; step < steps && result == sparsecollSuccess; ++step) result = group.run(rank);
    return result;
  });
}

sparsecollResult_t replay(const NcclRanks& ranks, RankGraphs& graphs, int rank) {
  if (cudaGraphLaunch(graphs[rank], ranks.stream(rank)) != cudaSuccess) return sparsecollCudaError;
  return sparsecollCommWait(ranks[rank], ranks.stream(rank), 60000);
}

// What is on the stream is all there is to a step, so a graph can hold it.
void checkReplays(const std::string& name, bool transactional) {
  CAPTURE(name, transactional);
  const NcclRanks ranks(3);
  const sparsecollParams_t params = preset(name.c_str(), name == "dense" ? 0 : 0.02);
  sparsecollReducerConfig_t config = SPARSECOLL_INIT(sparsecollReducerConfig_t);
  config.transactional = transactional ? 1 : 0;
  NcclGroup group(ranks, kLength, sparsecollFloat32, params, &config);
  Group host(3, kLength, sparsecollFloat32, params, &config);
  RankGraphs graphs(3);
  const auto check = [&](uint64_t seed, int steps, const std::function<Results()>& run) {
    CAPTURE(seed);
    host.fillRandom(seed);
    for (size_t r = 0; r < 3; ++r)
      std::memcpy(group.gradients[r].data(), host.gradients[r].data(), host.gradients[r].byteCount());
    for (int step = 0; step < steps; ++step) REQUIRE(host.step() == all(3, sparsecollSuccess));
    REQUIRE(run() == all(3, sparsecollSuccess));
    for (size_t r = 0; r < 3; ++r) REQUIRE(group.outs[r] == host.outs[r]);
    for (int rank = 0; rank < 3; ++rank) REQUIRE(group.residual(rank) == host.residual(rank));
  };
  const auto replays = [&] { return ranks.each([&](int rank) { return replay(ranks, graphs, rank); }); };
  check(1, 1, [&] { return group.step(); });
  REQUIRE(ranks.each([&](int rank) { return capture(ranks, group, graphs, rank, 2); }) == all(3, sparsecollSuccess));
  check(2, 2, replays);
  check(3, 2, replays);
  check(4, 1, [&] { return group.step(); });
  check(5, 2, replays);
  const sparsecollStats_t stats = statsOf(group.reducer(2));
  CHECK(stats.opsStarted == 8);
  CHECK(stats.opsCompleted == 8);
  CHECK(stats.bytesDense == host.stats(2).bytesDense);
}

}  // namespace

TEST_CASE("steps over NCCL have the bits of steps on threads in host memory") {
  for (const int count : kRankCounts) {
    const NcclRanks ranks(count);
    REQUIRE(ranks.made() == all(count, sparsecollSuccess));
    for (const std::string& name : allPresets())
      checkSteps(ranks, name, kLength, sparsecollFloat32, preset(name.c_str(), name == "dense" ? 0 : 0.02), kSteps);
  }
}

TEST_CASE("as published, too") {
  const NcclRanks ranks(3);
  for (const std::string& name : allPresets()) {
    sparsecollParams_t params = preset(name.c_str(), name == "dense" ? 0 : 0.03);
    params.faithful = 1;
    checkSteps(ranks, name, kLength / 2, sparsecollFloat32, params, 2);
  }
}

TEST_CASE("every element type") {
  const NcclRanks ranks(3);
  for (const sparsecollDataType_t type : kAllTypes)
    for (const char* const name : {"topka", "micro", "spardl"})
      checkSteps(ranks, name, 3001, type, preset(name, 0.05), 2);
  checkSteps(ranks, "dense", 3001, sparsecollFloat64, preset("dense", 0), 2);
}

TEST_CASE("tensors that are sent dense") {
  const SentDense tensors(3001);
  for (const int count : {1, 3}) {
    const NcclRanks ranks(count);
    for (const char* const name : {"topka", "micro", "gtopk", "spardl"})
      checkSteps(ranks, name, 3001, sparsecollFloat32, preset(name, 0.05), 2, tensors.config());
  }
}

TEST_CASE("dense sums with factors, and added to what is there") {
  const NcclRanks ranks(3);
  for (const uint32_t flags : {0u, SPARSECOLL_ACCUMULATE}) {
    sparsecollParams_t params = preset("dense", 0);
    params.inputScale = 0.3;
    params.outputScale = 1.7;
    params.op = sparsecollAvg;
    params.flags = flags;
    checkSteps(ranks, "dense", 5003, sparsecollFloat32, params, 3);
    checkSteps(ranks, "dense", 1300003, sparsecollFloat64, params, 1);  // more than one slab
  }
}

TEST_CASE("dense sums of halves: NCCL's rounding, the same bits on every rank") {
  const NcclRanks ranks(4);
  for (const sparsecollDataType_t type : {sparsecollFloat16, sparsecollBfloat16}) {
    NcclGroup group(ranks, 999, type, preset("dense", 0));
    REQUIRE(group.created() == all(4, sparsecollSuccess));
    for (size_t r = 0; r < 4; ++r)
      for (size_t i = 0; i < 999; ++i) group.gradients[r].set(i, static_cast<double>(i % 8) * (r == 3 ? -1 : 1));
    REQUIRE(group.step() == all(4, sparsecollSuccess));
    for (size_t r = 0; r < 4; ++r) CHECK(group.outs[r] == group.outs[0]);
    for (size_t i = 0; i < 999; ++i) REQUIRE(group.outs[0][i] == 2.0 * static_cast<double>(i % 8));
  }
  checkNothingLeft();
}

// One thread puts several steps of one rank on its stream before the other rank has begun the first.
TEST_CASE("a step waits for nobody on the host") {
  for (const char* const name : {"dense", "topka", "micro", "oktopk", "spardl", "gtopk", "sparcml-rd"}) {
    CAPTURE(name);
    const sparsecollParams_t params = preset(name, std::string(name) == "dense" ? 0 : 0.02);
    const NcclRanks ranks(2);
    NcclGroup nccl(ranks, kLength, sparsecollFloat32, params);
    Group host(2, kLength, sparsecollFloat32, params);
    host.fillRandom(1);
    nccl.gradients = host.gradients;
    REQUIRE(nccl.run(0) == sparsecollSuccess);
    REQUIRE(nccl.run(1) == sparsecollSuccess);  // connections and memory of a first step
    REQUIRE(ranks.wait() == all(2, sparsecollSuccess));
    simt::resetCalls();
    for (int step = 0; step < 3; ++step) REQUIRE(nccl.run(0) == sparsecollSuccess);
    CHECK(fake::waiting() == 1);
    CHECK(sparsecollCommWait(ranks[0], ranks.stream(0), 20) == sparsecollTimeout);
    const uint64_t waits = simt::calls("cudaStreamQuery");
    CHECK(waits > 0);
    for (int step = 0; step < 3; ++step) REQUIRE(nccl.run(1) == sparsecollSuccess);
    CHECK(simt::calls("cudaStreamQuery") == waits);
    CHECK(simt::calls("cudaStreamSynchronize") + simt::calls("cudaDeviceSynchronize") == 0);
    CHECK(simt::calls("cudaMalloc") + simt::calls("cudaEventSynchronize") == 0);
    CHECK(ranks.wait() == all(2, sparsecollSuccess));
    for (int step = 0; step < 4; ++step) REQUIRE(host.step() == all(2, sparsecollSuccess));
    for (size_t r = 0; r < 2; ++r) CHECK(nccl.outs[r] == host.outs[r]);
  }
  checkNothingLeft();
}

TEST_CASE("reducers take turns, on streams of their own") {
  const NcclRanks ranks(3);
  const NcclRanks others(3);  // for their streams
  const sparsecollParams_t params = preset("topka", 0.03);
  const sparsecollParams_t dense = preset("dense", 0);
  NcclGroup a(ranks, 3000, sparsecollFloat32, params);
  NcclGroup b(ranks, 4000, sparsecollFloat32, dense);
  Group hostA(3, 3000, sparsecollFloat32, params);
  Group hostB(3, 4000, sparsecollFloat32, dense);
  for (uint64_t step = 0; step < 4; ++step) {
    hostA.fillRandom(step);
    hostB.fillRandom(step + 100);
    a.gradients = hostA.gradients;
    b.gradients = hostB.gradients;
    const Results ran = ranks.each([&](int rank) {
      const auto r = static_cast<size_t>(rank);
      if (const sparsecollResult_t result = a.run(rank)) return result;
      const cudaStream_t stream = step % 2 == 0 ? ranks.stream(rank) : others.stream(rank);
      if (const sparsecollResult_t result =
              sparsecollReducerRun(b.reducer(rank), b.gradients[r].data(), b.outs[r].data(), stream))
        return result;
      if (const sparsecollResult_t result = sparsecollCommWait(ranks[rank], ranks.stream(rank), 60000)) return result;
      return sparsecollCommWait(ranks[rank], stream, 60000);
    });
    REQUIRE(ran == all(3, sparsecollSuccess));
    REQUIRE(hostA.step() == all(3, sparsecollSuccess));
    REQUIRE(hostB.step() == all(3, sparsecollSuccess));
    for (size_t r = 0; r < 3; ++r) {
      CHECK(a.outs[r] == hostA.outs[r]);
      CHECK(b.outs[r] == hostB.outs[r]);
    }
  }
  checkNothingLeft();
}

// NaN and Inf in one rank's gradient, in the last of several slabs as well.
TEST_CASE("a dense sum with NaN or Inf is told to all ranks") {
  const sparsecollConfig_t config = strict();
  for (const int count : {1, 3}) {
    const NcclRanks ranks(count, &config);
    for (const uint32_t flags : {0u, SPARSECOLL_ACCUMULATE}) {
      for (const sparsecollRedOp_t op : {sparsecollSum, sparsecollAvg}) {
        CAPTURE(count, flags, int{op});
        constexpr uint64_t n = 1100003;
        sparsecollParams_t params = preset("dense", 0);
        params.op = op;
        params.flags = flags;
        NcclGroup group(ranks, n, sparsecollFloat64, params);
        REQUIRE(group.created() == all(count, sparsecollSuccess));
        CHECK(group.step() == all(count, sparsecollSuccess));
        const auto last = static_cast<size_t>(count - 1);
        group.gradients[last].set(n - 1, HUGE_VAL);
        CHECK(ranks.each([&](int rank) { return group.run(rank); }) == all(count, sparsecollSuccess));
        CHECK(ranks.wait() == all(count, sparsecollNonFinite));
        CHECK(ranks.wait() == all(count, sparsecollSuccess));
        group.gradients[last].set(n - 1, 1);
        for (Elements& out : group.outs) out.set(n - 1, 0);
        CHECK(group.step() == all(count, sparsecollSuccess));
        for (int rank = 0; rank < count; ++rank) {
          const sparsecollStats_t stats = statsOf(group.reducer(rank));
          CHECK(stats.opsStarted == 3);
          CHECK(stats.opsNonFinite == 1);
          CHECK(stats.opsCompleted == 2);
        }
      }
    }
  }
  checkNothingLeft();
}

TEST_CASE("steps of every preset can be captured and replayed") {
  for (const std::string& name : allPresets()) checkReplays(name, false);
  for (const char* const name : {"topka", "micro", "spardl"}) checkReplays(name, true);
  checkNothingLeft();
}

TEST_CASE("replays that meet NaN or Inf, and replays of different steps, are told") {
  const sparsecollConfig_t config = strict();
  for (const char* const name : {"dense", "topka"}) {
    CAPTURE(name);
    const NcclRanks ranks(2, &config);
    const sparsecollParams_t params = preset(name, std::string(name) == "dense" ? 0 : 0.02);
    NcclGroup group(ranks, kLength, sparsecollFloat32, params), other(ranks, kLength, sparsecollFloat32, params);
    RankGraphs graphs(2), others(2);
    const auto replays = [&] { return ranks.each([&](int rank) { return replay(ranks, graphs, rank); }); };
    REQUIRE(group.step() == all(2, sparsecollSuccess));
    REQUIRE(ranks.each([&](int rank) { return capture(ranks, group, graphs, rank, 1); }) == all(2, sparsecollSuccess));
    REQUIRE(ranks.each([&](int rank) { return capture(ranks, other, others, rank, 1); }) == all(2, sparsecollSuccess));
    CHECK(replays() == all(2, sparsecollSuccess));
    group.gradients[1].set(5, HUGE_VAL);
    CHECK(replays() == all(2, sparsecollNonFinite));
    group.gradients[1].set(5, 0);
    CHECK(replays() == all(2, sparsecollSuccess));
    CHECK(statsOf(group.reducer(0)).opsNonFinite == 1);
    CHECK(ranks.each([&](int rank) { return replay(ranks, rank == 0 ? graphs : others, rank); }) ==
          all(2, sparsecollMismatch));
    CHECK(ranks.wait() == all(2, sparsecollSuccess));
  }
  checkNothingLeft();
}

TEST_CASE("a wait is not captured, over NCCL either") {
  const NcclRanks ranks(2);
  NcclGroup group(ranks, kLength, sparsecollFloat32, preset("topka", 0.02));
  RankGraphs graphs(2);
  CHECK(group.step() == all(2, sparsecollSuccess));
  CHECK(ranks.each([&](int rank) {
    return captureGraph(ranks.stream(rank), &graphs[rank],
                        [&] { return sparsecollCommWait(ranks[rank], ranks.stream(rank), 10); });
  }) == all(2, sparsecollInvalidUsage));
  CHECK(group.step() == all(2, sparsecollSuccess));
  checkNothingLeft();
}
