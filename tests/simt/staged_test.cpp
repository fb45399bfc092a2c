// Whole steps on devices over an engine of messages that works in host memory: the bits of ranks that are threads in
// host memory, with calls that wait for nobody.
#include <cmath>
#include <string>

#include "tests/simt/staged_ranks.h"
#include "tests/support/replays.h"
#include "tests/support/same_steps.h"
#include "tests/support/sent_dense.h"

using namespace sparsecoll::test;

namespace {

constexpr int kRankCounts[] = {1, 2, 3, 4};
constexpr uint64_t kLength = 10007;
constexpr int kSteps = 3;

void checkSteps(const StreamRanks& ranks, const std::string& name, uint64_t n, sparsecollDataType_t type,
                const sparsecollParams_t& params, int steps, const sparsecollReducerConfig_t* config = nullptr) {
  const int count = ranks.count();
  CAPTURE(name, count, n, nameOf(type));
  Group host(count, n, type, params, config);
  if (host.created()[0] == sparsecollUnsupported) return;
  StreamGroup staged(ranks, n, type, params, config);
  checkSameSteps(host, staged, steps);
  checkNoMisuse();
}

}  // namespace

TEST_CASE("steps on devices over messages have the bits of steps on threads in host memory") {
  for (const int count : kRankCounts) {
    const StagedRanks ranks(count);
    REQUIRE(ranks.made() == all(count, sparsecollSuccess));
    int rank = -1, of = 0, device = -1;
    REQUIRE(sparsecollCommGetInfo(ranks[count - 1], &rank, &of, &device) == sparsecollSuccess);
    CHECK((rank == count - 1 && of == count && device == 0));
    for (const std::string& name : allPresets())
      checkSteps(ranks, name, kLength, sparsecollFloat32, paramsOf(name), kSteps);
  }
}

TEST_CASE("ranks on devices that cannot reach each other's memory are well over messages") {
  simt::setDevices(2);
  simt::setPeerAccess(false);
  simt::resetCalls();
  {
    const StagedRanks ranks(3, nullptr, nullptr, std::vector<int>{1, 0});
    REQUIRE(ranks.made() == all(3, sparsecollSuccess));
    for (const char* const name : {"topka", "micro", "spardl", "dense"})
      checkSteps(ranks, name, 2003, sparsecollFloat32, paramsOf(name), 2);
  }
  CHECK(simt::calls("cudaDeviceEnablePeerAccess") == 0);
  simt::setPeerAccess(true);
  simt::setDevices(1);
}

TEST_CASE("as published, too") {
  const StagedRanks ranks(3);
  for (const std::string& name : allPresets()) {
    sparsecollParams_t params = paramsOf(name, 0.03);
    params.faithful = 1;
    checkSteps(ranks, name, kLength / 2, sparsecollFloat32, params, 2);
  }
}

TEST_CASE("every element type, dense sums included") {
  const StagedRanks ranks(3);
  for (const sparsecollDataType_t type : kAllTypes)
    for (const char* const name : {"topka", "micro", "spardl", "dense"})
      checkSteps(ranks, name, 3001, type, paramsOf(name, 0.05), 2);
}

TEST_CASE("tensors that are sent dense") {
  const SentDense tensors(3001);
  const StagedRanks ranks(3);
  for (const char* const name : {"topka", "micro", "gtopk", "spardl"})
    checkSteps(ranks, name, 3001, sparsecollFloat32, paramsOf(name, 0.05), 2, tensors.config());
}

TEST_CASE("dense sums of several slabs, with factors, and added to what is there") {
  const StagedRanks ranks(3);
  for (const uint32_t flags : {0u, SPARSECOLL_ACCUMULATE}) {
    sparsecollParams_t params = preset("dense", 0);
    params.inputScale = 0.3;
    params.outputScale = 1.7;
    params.op = sparsecollAvg;
    params.flags = flags;
    checkSteps(ranks, "dense", 5003, sparsecollFloat32, params, 3);
    checkSteps(ranks, "dense", 1700003, sparsecollFloat64, params, 2);
  }
}

// One thread puts several steps of one rank on its stream before the other rank has begun the first.
TEST_CASE("a step waits for nobody on the host") {
  for (const char* const name : {"dense", "topka", "micro", "oktopk", "spardl", "gtopk", "sparcml-rd"}) {
    CAPTURE(name);
    const sparsecollParams_t params = paramsOf(name);
    const StagedRanks ranks(2);
    StreamGroup staged(ranks, kLength, sparsecollFloat32, params);
    Group host(2, kLength, sparsecollFloat32, params);
    host.fillRandom(1);
    staged.gradients = host.gradients;
    const KnownVectors known(staged);
    REQUIRE(staged.step() == all(2, sparsecollSuccess));
    simt::resetCalls();
    for (int step = 0; step < 3; ++step) REQUIRE(staged.run(0) == sparsecollSuccess);
    CHECK(cudaStreamQuery(ranks.stream(0)) == cudaErrorNotReady);
    (void)cudaGetLastError();
    CHECK(sparsecollCommWait(ranks[0], ranks.stream(0), 20) == sparsecollTimeout);
    for (int step = 0; step < 3; ++step) REQUIRE(staged.run(1) == sparsecollSuccess);
    CHECK(simt::calls("cudaStreamSynchronize") + simt::calls("cudaDeviceSynchronize") == 0);
    CHECK(simt::calls("cudaEventSynchronize") == 0);
    CHECK(simt::calls("cudaMallocFromPoolAsync") + simt::calls("cudaHostAlloc") == 0);
    CHECK(ranks.wait() == all(2, sparsecollSuccess));
    for (int step = 0; step < 4; ++step) REQUIRE(host.step() == all(2, sparsecollSuccess));
    for (size_t r = 0; r < 2; ++r) CHECK(staged.outs[r] == host.outs[r]);
  }
  checkNoMisuse();
}

TEST_CASE("reducers take turns, on streams of their own, and are made while steps are under way") {
  const simt::QueuesFor queues(6);  // two streams a rank
  const StagedRanks ranks(3);
  const StagedRanks others(3);  // for their streams
  const sparsecollParams_t params = paramsOf("topka", 0.03);
  const sparsecollParams_t dense = paramsOf("dense");
  StreamGroup a(ranks, 3000, sparsecollFloat32, params);
  StreamGroup b(ranks, 4000, sparsecollFloat32, dense);
  Group hostA(3, 3000, sparsecollFloat32, params);
  Group hostB(3, 4000, sparsecollFloat32, dense);
  for (uint64_t step = 0; step < 6; ++step) {
    CAPTURE(step);
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
      sparsecollReducer_t another = nullptr;
      if (const sparsecollResult_t result =
              sparsecollReducerCreate(&another, 500, sparsecollFloat32, &params, nullptr, ranks[rank]))
        return result;
      if (const sparsecollResult_t result = sparsecollReducerDestroy(another)) return result;
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
  checkNoMisuse();
}

TEST_CASE("a dense sum with NaN or Inf is told to all ranks, in the last of several slabs as well") {
  sparsecollConfig_t config = SPARSECOLL_INIT(sparsecollConfig_t);
  config.nonFinite = sparsecollNonFiniteError;
  for (const int count : {1, 3}) {
    const StagedRanks ranks(count, &config);
    for (const uint32_t flags : {0u, SPARSECOLL_ACCUMULATE}) {
      CAPTURE(count, flags);
      constexpr uint64_t n = 600003;
      sparsecollParams_t params = preset("dense", 0);
      params.flags = flags;
      StreamGroup group(ranks, n, sparsecollFloat64, params);
      REQUIRE(group.created() == all(count, sparsecollSuccess));
      CHECK(group.step() == all(count, sparsecollSuccess));
      const auto last = static_cast<size_t>(count - 1);
      group.gradients[last].set(n - 1, HUGE_VAL);
      CHECK(ranks.each([&](int rank) { return group.run(rank); }) == all(count, sparsecollSuccess));
      CHECK(ranks.wait() == all(count, sparsecollNonFinite));
      group.gradients[last].set(n - 1, 1);
      for (Elements& out : group.outs) out.set(n - 1, 0);
      CHECK(group.step() == all(count, sparsecollSuccess));
      CHECK(statsOf(group.reducer(0)).opsNonFinite == 1);
      CHECK(statsOf(group.reducer(0)).opsCompleted == 2);
    }
  }
  checkNoMisuse();
}

TEST_CASE("sparse vectors on devices over messages") {
  constexpr uint64_t kEntries = 40;
  const StagedRanks ranks(3);
  std::vector<std::unique_ptr<SparseVector>> ins, sums, rows;
  for (int rank = 0; rank < 3; ++rank) {
    ins.push_back(std::make_unique<SparseVector>(sparsecollFloat32, 1000, kEntries));
    sums.push_back(std::make_unique<SparseVector>(sparsecollFloat32, 1000, 3 * kEntries));
    rows.push_back(std::make_unique<SparseVector>(sparsecollFloat32, 1000, 3 * kEntries));
    for (uint64_t i = 0; i < kEntries; ++i) ins.back()->add(i * (static_cast<uint64_t>(rank) + 2), rank + 1);
  }
  for (int call = 0; call < 3; ++call) {
    CHECK(ranks.each([&](int rank) {
      const auto r = static_cast<size_t>(rank);
      if (const sparsecollResult_t result =
              sparsecollAllReduceVector(ins[r]->view(), sums[r]->view(), nullptr, ranks[rank], ranks.stream(rank)))
        return result;
      return sparsecollAllGatherVector(ins[r]->view(), rows[r]->view(), ranks[rank], ranks.stream(rank));
    }) == all(3, sparsecollSuccess));
    for (int rank = 0; rank < 3; ++rank) {
      const auto r = static_cast<size_t>(rank);
      CHECK(rows[r]->count() == 3 * kEntries);
      std::vector<double> expected(1000);
      for (uint64_t i = 0; i < kEntries; ++i)
        for (size_t from = 0; from < 3; ++from) expected[i * (from + 2)] += static_cast<double>(from) + 1;
      for (uint64_t i = 0; i < sums[r]->count(); ++i) {
        CHECK(sums[r]->value(i) == expected[sums[r]->index(i)]);
        expected[sums[r]->index(i)] = 0;
      }
      CHECK((expected == std::vector<double>(1000)));
    }
  }
  checkNoMisuse();
}

TEST_CASE("ranks with vectors in host memory and on devices do not meet") {
  const StagedRanks ranks(2, nullptr, nullptr, std::vector<int>{-1, 0});  // rank 0 in host memory
  CHECK(ranks.made() == all(2, sparsecollMismatch));
  checkNoMisuse();
}

TEST_CASE("steps on devices over UCX and TCP") {
  sparsecollConfig_t config = SPARSECOLL_INIT(sparsecollConfig_t);
  config.transport = GENERATE(sparsecollTransportUcx, sparsecollTransportTcp);
  config.backend = sparsecollBackendCuda;
  int available = 0;
  REQUIRE(sparsecollBackendAvailable(config.backend, config.transport, &available) == sparsecollSuccess);
  if (available == 0) return;
  sparsecollUniqueId_t id{};
  REQUIRE(sparsecollGetUniqueId(&id, &config) == sparsecollSuccess);
  const StreamRanks ranks(
      3, [&](int rank, sparsecollComm_t* comm) { return sparsecollCommInitRank(comm, 3, &id, rank, 0, &config); });
  REQUIRE(ranks.made() == all(3, sparsecollSuccess));
  for (const char* const name : {"topka", "spardl", "dense"})
    checkSteps(ranks, name, kLength, sparsecollFloat32, paramsOf(name), kSteps);
  sparsecollComm_t part = nullptr;
  CHECK(sparsecollCommSplit(ranks[0], 0, 0, &part, nullptr) == sparsecollUnsupported);
}

TEST_CASE("steps over messages cannot be captured, on no rank, and go on afterwards") {
  for (const char* const name : {"topka", "dense"}) {
    CAPTURE(name);
    const StagedRanks ranks(3);
    StreamGroup group(ranks, kLength, sparsecollFloat32, paramsOf(name));
    RankGraphs graphs(3);
    const auto capture = [&](int rank) {
      return captureGraph(ranks.stream(rank), &graphs[rank], [&] { return group.run(rank); });
    };
    REQUIRE(group.step() == all(3, sparsecollSuccess));
    CHECK(ranks.each(capture) == all(3, sparsecollUnsupported));
    CHECK(group.step() == all(3, sparsecollSuccess));
    CHECK(ranks.each([&](int rank) {
      if (rank == 1) return capture(rank);
      const sparsecollResult_t ran = group.run(rank);
      return ran == sparsecollSuccess ? sparsecollCommWait(ranks[rank], ranks.stream(rank), 60000) : ran;
    }) == Results{sparsecollMismatch, sparsecollUnsupported, sparsecollMismatch});
    CHECK(std::string(failureOf(ranks[0]).field) == "capture");
    CHECK(failureOf(ranks[0]).peer == 1);
    CHECK(group.step() == all(3, sparsecollSuccess));
    CHECK(group.step() == all(3, sparsecollSuccess));
  }
  checkNoMisuse();
}

TEST_CASE("nor can those of one rank alone, which has nobody to tell so") {
  for (const char* const name : {"topka", "dense"}) {
    CAPTURE(name);
    const StagedRanks ranks(1);
    StreamGroup group(ranks, kLength, sparsecollFloat32, paramsOf(name));
    RankGraphs graphs(1);
    for (int turn = 0; turn < 2; ++turn) {
      REQUIRE(group.step() == all(1, sparsecollSuccess));
      CHECK(ranks.each([&](int rank) {
        return captureGraph(ranks.stream(rank), &graphs[rank], [&] { return group.run(rank); });
      }) == all(1, sparsecollUnsupported));
    }
    CHECK(group.step() == all(1, sparsecollSuccess));
  }
  checkNoMisuse();
}

TEST_CASE("a driver without stream memory operations") {
  for (const char* const call : {"cudaGetDriverEntryPoint", "cudaGetDriverEntryPointByVersion"})
    simt::failCall(call, 0, cudaErrorNotSupported);
  const StagedRanks ranks(1);
  simt::forgetFailures();
  CHECK(ranks.made() == all(1, sparsecollUnsupported));
  checkNoMisuse();
}

TEST_CASE("arguments") {
  PairMesh mesh(1);
  PairEngine engine(0, mesh.takeSockets(0));
  sparsecollEngine_t table = engine.table();
  table.release = nullptr;
  sparsecollComm_t comm = nullptr;
  CHECK(sparsecollCommInitEngine(&comm, 1, 0, 1000, &table, nullptr) == sparsecollInvalidArgument);
  CHECK(sparsecollCommInitEngine(&comm, 257, 0, 0, &table, nullptr) == sparsecollUnsupported);
  sparsecollConfig_t config = SPARSECOLL_INIT(sparsecollConfig_t);
  config.backend = sparsecollBackendHost;
  CHECK(sparsecollCommInitEngine(&comm, 1, 0, 0, &table, &config) == sparsecollInvalidArgument);
  config.backend = sparsecollBackendCuda;
  CHECK(sparsecollCommInitEngine(&comm, 1, 0, SPARSECOLL_HOST, &table, &config) == sparsecollInvalidArgument);
  CHECK(comm == nullptr);
  REQUIRE(sparsecollCommInitEngine(&comm, 1, 0, 0, &table, &config) == sparsecollSuccess);
  CHECK(sparsecollCommDestroy(comm) == sparsecollSuccess);
  checkNoMisuse();
}
