// What is not captured, and what replays tell of what goes wrong.
#include <cmath>
#include <string>

#include "tests/simt/twins.h"

using namespace sparsecoll::test;

TEST_CASE("all ranks capture a step, or none") {
  for (const char* const name : {"topka", "gtopk", "dense"}) {
    for (const int capturing : {0, 2}) {
      CAPTURE(name, capturing);
      Twins twins(3, 601, preset(name, std::string(name) == "dense" ? 0 : 0.03));
      REQUIRE(twins.made());
      twins.makeVectors(1);
      RankGraphs graphs(3);
      const auto mixed = [&] {
        return onEach(twins.device.ranks(), [&](int rank, sparsecollComm_t) {
          if (rank != capturing) return twins.run(rank, 0);
          return captureGraph(twins.streams[rank], &graphs[rank], [&] { return twins.run(rank, 0); });
        });
      };
      CHECK(mixed() == all(3, sparsecollMismatch));
      CHECK(std::string(failureOf(twins.device.ranks()[1]).field) == "capture");
      CHECK(mixed() == all(3, sparsecollMismatch));  // now all meet before the step
      CHECK(twins.device.each([](int, sparsecollReducer_t reducer) {
        return sparsecollReducerReset(reducer, nullptr);
      }) == twins.good());
      twins.checkStep(0);
      twins.checkStep(0);
      REQUIRE(twins.capture(graphs, 0, 1) == twins.good());
      twins.checkReplay(graphs, 0, 1);
      checkEmulation();
    }
  }
}

TEST_CASE("what replays could not do right is not captured") {
  const double warmUp[] = {0.2, 0.1};
  sparsecollReducerConfig_t config = SPARSECOLL_INIT(sparsecollReducerConfig_t);
  config.densitySchedule = warmUp;
  config.densityScheduleCount = 2;
  config.scheduleSteps = 1;
  Twins twins(2, 501, preset("topka", 0.02), &config);
  REQUIRE(twins.made());
  twins.makeVectors(1);
  RankGraphs graphs(2);
  CHECK(twins.capture(graphs, 0, 1) == all(2, sparsecollUnsupported));
  for (int warmSteps = 0; warmSteps < 2; ++warmSteps) {
    twins.checkStep(0);
    CHECK(twins.capture(graphs, 0, 1) == all(2, sparsecollUnsupported));
  }
  twins.checkStep(0);
  const auto reset = [](int, sparsecollReducer_t reducer) { return sparsecollReducerReset(reducer, nullptr); };
  REQUIRE(twins.host.each(reset) == twins.good());
  REQUIRE(twins.device.each([&](int rank, sparsecollReducer_t reducer) {
    return sparsecollReducerReset(reducer, twins.streams[rank]);
  }) == twins.good());
  for (int warmSteps = 0; warmSteps < 3; ++warmSteps) {
    CHECK(twins.capture(graphs, 0, 1) == all(2, sparsecollUnsupported));
    twins.checkStep(0);
  }
  CHECK(twins.capture(graphs, 0, 1) == twins.good());
  twins.checkReplay(graphs, 0, 1);
  CHECK(twins.device.each(reset) == all(2, sparsecollInvalidUsage));
  twins.checkReplay(graphs, 0, 1);
  // Calls that look at the device, or change it from outside, on a stream that is captured.
  CHECK(onEach(twins.device.ranks(), [&](int rank, sparsecollComm_t comm) {
          cudaGraphExec_t none = nullptr;
          size_t bytes = 0;
          return captureGraph(twins.streams[rank], &none, [&] {
            if (sparsecollCommWait(comm, twins.streams[rank], 10) != sparsecollInvalidUsage) return sparsecollSuccess;
            return sparsecollReducerExport(twins.device.reducer(rank), nullptr, &bytes, twins.streams[rank]);
          });
        }) == all(2, sparsecollInvalidUsage));
  CHECK(onEach(twins.device.ranks(), [&](int rank, sparsecollComm_t comm) {
          cudaGraphExec_t none = nullptr;
          const auto r = static_cast<size_t>(rank);
          const sparsecollParams_t params = preset("topka", 0.02);
          SparseVector entries(sparsecollFloat32, 501, 20);
          return captureGraph(twins.streams[rank], &none, [&] {
            if (sparsecollSelect(twins.gradients[0][r].data(), 501, sparsecollFloat32, &params, entries.view(), comm,
                                 twins.streams[rank]) != sparsecollInvalidUsage)
              return sparsecollSuccess;
            return sparsecollAllReduce(twins.gradients[0][r].data(), twins.outs[0][r].data(), 501, sparsecollFloat32,
                                       &params, comm, twins.streams[rank]);
          });
        }) == all(2, sparsecollInvalidUsage));
  // A stream in common would wait for itself.
  CHECK(onEach(twins.device.ranks(), [&](int rank, sparsecollComm_t) {
          const auto r = static_cast<size_t>(rank);
          return sparsecollReducerRun(twins.device.reducer(rank), twins.gradients[0][r].data(), twins.outs[0][r].data(),
                                      nullptr);
        }) == all(2, sparsecollInvalidUsage));
  twins.checkStep(0);
  checkEmulation();
}

TEST_CASE("a replay that meets NaN or Inf is told as a step is, where it is an error") {
  sparsecollConfig_t config = SPARSECOLL_INIT(sparsecollConfig_t);
  config.nonFinite = sparsecollNonFiniteError;
  for (const char* const name : {"topka", "spardl", "dense"}) {
    for (const int ranks : {1, 3}) {
      CAPTURE(name, ranks);
      Twins twins(ranks, 601, preset(name, std::string(name) == "dense" ? 0 : 0.03), nullptr, &config);
      REQUIRE(twins.made());
      twins.makeVectors(1);
      RankGraphs graphs(ranks);
      twins.checkStep(0);
      REQUIRE(twins.capture(graphs, 0, 1) == twins.good());
      twins.checkReplay(graphs, 0, 1);
      for (const bool replays : {true, false}) {
        twins.loadGradients(0, 100);
        twins.host.gradients[0].set(77, HUGE_VAL);
        twins.gradients[0][0].set(77, HUGE_VAL);
        CHECK(twins.host.step() == all(ranks, sparsecollNonFinite));
        CHECK((replays ? twins.replay(graphs) : twins.step(0)) == all(ranks, sparsecollNonFinite));
        twins.checkReplay(graphs, 0, 1);
        twins.checkStep(0);
      }
      const sparsecollStats_t stats = twins.device.stats(0);
      CHECK(stats.opsNonFinite == 2);
      CHECK(stats.opsStarted == 8);
      CHECK(stats.opsCompleted == 6);
      checkEmulation();
    }
  }
}

TEST_CASE("times stay those of the latest step that was run") {
  Twins twins(2, 501, preset("topka", 0.02));
  REQUIRE(twins.made());
  twins.makeVectors(1);
  RankGraphs graphs(2);
  twins.checkStep(0);
  const uint64_t before = twins.device.stats(0).lastTotalNs;
  CHECK(before > 0);
  REQUIRE(twins.capture(graphs, 0, 1) == twins.good());
  twins.checkReplay(graphs, 0, 1);
  CHECK(twins.device.stats(0).lastTotalNs == before);
  twins.checkStep(0);
  CHECK(twins.device.stats(0).lastTotalNs != 0);
  checkEmulation();
}

TEST_CASE("a preserved out stays the one that was captured") {
  sparsecollParams_t params = preset("topka", 0.02);
  params.flags |= SPARSECOLL_OUT_PRESERVED;
  Twins twins(2, 501, params);
  REQUIRE(twins.made());
  twins.makeVectors(2);
  for (auto& outs : twins.outs)
    for (Elements& out : outs)
      REQUIRE(cudaHostRegister(out.data(), out.byteCount(), cudaHostRegisterDefault) == cudaSuccess);
  RankGraphs graphs(2);
  CHECK(twins.capture(graphs, 0, 1) == all(2, sparsecollInvalidUsage));
  twins.checkStep(0);
  CHECK(twins.capture(graphs, 0, 1) == twins.good());
  for (int i = 0; i < 3; ++i) twins.checkReplay(graphs, 0, 1);
  CHECK(twins.step(1) == all(2, sparsecollInvalidUsage));
  twins.checkStep(0);
  twins.checkReplay(graphs, 0, 1);
  for (auto& outs : twins.outs)
    for (Elements& out : outs) CHECK(cudaHostUnregister(out.data()) == cudaSuccess);
  checkEmulation();
}

TEST_CASE("a rank that does not replay in time is waited for no longer than asked") {
  Twins twins(2, 501, preset("topka", 0.02));
  REQUIRE(twins.made());
  twins.makeVectors(1);
  RankGraphs graphs(2);
  REQUIRE(twins.capture(graphs, 0, 1) == twins.good());
  twins.advance(0, 1);
  REQUIRE(cudaGraphLaunch(graphs[0], twins.streams[0]) == cudaSuccess);
  CHECK(sparsecollCommWait(twins.device.ranks()[0], twins.streams[0], 50) == sparsecollTimeout);
  REQUIRE(cudaGraphLaunch(graphs[1], twins.streams[1]) == cudaSuccess);
  for (int rank = 0; rank < 2; ++rank)
    CHECK(sparsecollCommWait(twins.device.ranks()[rank], twins.streams[rank], kWaitMs) == sparsecollSuccess);
  CHECK(twins.same(0, 1));
  checkEmulation();
}

TEST_CASE("an abort ends replays that wait, and all that come") {
  Twins twins(3, 501, preset("spardl", 0.02));
  REQUIRE(twins.made());
  twins.makeVectors(1);
  RankGraphs graphs(3);
  REQUIRE(twins.capture(graphs, 0, 1) == twins.good());
  twins.checkReplay(graphs, 0, 1);
  for (int replay = 0; replay < 3; ++replay)
    for (int rank = 0; rank < 2; ++rank) REQUIRE(cudaGraphLaunch(graphs[rank], twins.streams[rank]) == cudaSuccess);
  CHECK(sparsecollCommWait(twins.device.ranks()[0], twins.streams[0], 20) == sparsecollTimeout);
  CHECK(sparsecollCommAbort(twins.device.ranks()[2]) == sparsecollSuccess);
  CHECK(sparsecollCommWait(twins.device.ranks()[0], twins.streams[0], kWaitMs) == sparsecollPeerFailed);
  CHECK(sparsecollCommWait(twins.device.ranks()[1], twins.streams[1], kWaitMs) == sparsecollPeerFailed);
  CHECK(sparsecollCommWait(twins.device.ranks()[2], twins.streams[2], kWaitMs) == sparsecollAborted);
  CHECK(cudaStreamQuery(twins.streams[0]) == cudaSuccess);
  checkEmulation();
}

TEST_CASE("ranks that replay different steps are told once, and go on") {
  sparsecollParams_t params = preset("topka", 0.02);
  Twins twins(2, 501, params);
  REQUIRE(twins.made());
  const Reducers others(twins.device.ranks(), 501, sparsecollFloat32, params);
  twins.makeVectors(1);
  RankGraphs graphs(2), strange(2);
  REQUIRE(twins.capture(graphs, 0, 1) == twins.good());
  REQUIRE(onEach(twins.device.ranks(), [&](int rank, sparsecollComm_t) {
            const auto r = static_cast<size_t>(rank);
            return captureGraph(twins.streams[rank], &strange[rank], [&] {
              return sparsecollReducerRun(others[rank], twins.gradients[0][r].data(), twins.outs[0][r].data(),
                                          twins.streams[rank]);
            });
          }) == twins.good());
  twins.checkReplay(graphs, 0, 1);
  REQUIRE(twins.replay(strange) == twins.good());
  CHECK(onEach(twins.device.ranks(), [&](int rank, sparsecollComm_t comm) {
          if (cudaGraphLaunch(rank == 0 ? graphs[rank] : strange[rank], twins.streams[rank]) != cudaSuccess)
            return sparsecollCudaError;
          return sparsecollCommWait(comm, twins.streams[rank], kWaitMs);
        }) == all(2, sparsecollMismatch));
  for (int rank = 0; rank < 2; ++rank)
    CHECK(sparsecollCommWait(twins.device.ranks()[rank], twins.streams[rank], kWaitMs) == sparsecollSuccess);
  for (Group* group : {&twins.host, &twins.device})
    CHECK(group->each([](int, sparsecollReducer_t reducer) { return sparsecollReducerReset(reducer, nullptr); }) ==
          twins.good());
  twins.checkReplay(graphs, 0, 1);
  twins.checkStep(0);
  checkEmulation();
}
