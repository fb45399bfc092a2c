// Steps captured in graphs and replayed: the bits of steps that are run, whatever is captured, run and replayed in
// which order. The host stands in for steps that are run: presets_test.cpp compares the two.
#include <chrono>
#include <thread>

#include "tests/simt/twins.h"
#include "tests/support/presets.h"
#include "tests/support/sent_dense.h"

using namespace sparsecoll::test;

namespace {

constexpr uint64_t kLength = 1511;
constexpr int kManyReplays[] = {300, 100};

void checkPreset(const std::string& name, int ranks, int faithful, uint64_t seed) {
  CAPTURE(name, ranks, faithful, seed);
  sparsecollParams_t params = preset(name.c_str(), name == "dense" ? 0 : 0.02);
  params.faithful = faithful;
  Twins twins(ranks, kLength, params);
  if (twins.host.created()[0] == sparsecollUnsupported) return;
  REQUIRE(twins.made());
  simt::schedule(seed);
  twins.makeVectors(4);
  RankGraphs graphs(ranks);
  twins.checkStep(3);
  REQUIRE(twins.capture(graphs, 0, 3) == twins.good());
  for (int replay = 0; replay < 2; ++replay) twins.checkReplay(graphs, 0, 3);
  twins.checkStep(3);
  twins.checkReplay(graphs, 0, 3);
  twins.checkStep(3);
  simt::schedule(0);
  checkEmulation();
}

void checkManyReplays(const char* name, int replays) {
  CAPTURE(name);
  Twins twins(2, 101, preset(name, 0.05));
  REQUIRE(twins.made());
  twins.makeVectors(3);
  RankGraphs graphs(2);
  REQUIRE(twins.capture(graphs, 0, 3) == twins.good());
  for (int replay = 0; replay < replays; ++replay) {
    CAPTURE(replay);
    twins.checkReplay(graphs, 0, 3);
  }
  const sparsecollStats_t stats = twins.device.stats(0);
  const sparsecollStats_t expected = twins.host.stats(0);
  CHECK(stats.opsCompleted == 3 * static_cast<uint64_t>(replays));
  CHECK(stats.opsStarted == stats.opsCompleted);
  CHECK(stats.lastSelected == expected.lastSelected);
  CHECK(stats.bytesDense == expected.bytesDense);
  CHECK(stats.bytesSent > 0);
  checkEmulation();
}

}  // namespace

TEST_CASE("three captured steps replay with the bits of steps that are run") {
  for (const std::string& name : allPresets()) checkPreset(name, 3, 0, 0);
}

// What depends on the number of ranks alone, presets_test.cpp sees.
TEST_CASE("captured steps of other numbers of ranks, each by some of the presets") {
  constexpr int kRankCounts[] = {1, 2, 4, 8};
  const std::vector<std::string> names = allPresets();
  for (size_t i = 0; i < names.size(); ++i) checkPreset(names[i], kRankCounts[i % std::size(kRankCounts)], 0, 0);
}

TEST_CASE("as published, and under another order of all threads") {
  for (const std::string& name : allPresets()) checkPreset(name, 3, 1, 7);
}

// A list that overflows on the way to a threshold holds other candidates in every order.
TEST_CASE("thresholds do not depend on what lists had no room for") {
  for (const char* const name : {"micro", "exdyna"})
    for (const uint64_t seed : {7, 8}) {
      CAPTURE(name, seed);
      Twins twins(1, 100003, preset(name, 0.01));
      REQUIRE(twins.made());
      twins.makeVectors(3);
      simt::schedule(seed);
      RankGraphs graphs(1);
      REQUIRE(twins.capture(graphs, 0, 3) == twins.good());
      for (int replay = 0; replay < 3; ++replay) twins.checkReplay(graphs, 0, 3);
      simt::schedule(0);
      checkEmulation();
    }
}

TEST_CASE("hundreds of replays") { checkManyReplays("topka", kManyReplays[0]); }
TEST_CASE("many replays of a method that keeps more between steps") { checkManyReplays("micro", kManyReplays[1]); }

TEST_CASE("replays that are not waited for, of graphs with odd and even numbers of steps") {
  for (const char* const name : {"topka", "deft"}) {
    Twins twins(3, 701, preset(name, 0.03));
    REQUIRE(twins.made());
    twins.makeVectors(3);
    RankGraphs one(3), two(3);
    REQUIRE(twins.capture(one, 0, 1) == twins.good());
    REQUIRE(twins.capture(two, 1, 2) == twins.good());
    twins.advance(0, 3);
    // The first three steps of every rank are enqueued at once; ranks get to them when they like.
    CHECK(onEach(twins.device.ranks(), [&](int rank, sparsecollComm_t comm) {
            std::this_thread::sleep_for(std::chrono::milliseconds(10 * rank));
            if (cudaGraphLaunch(one[rank], twins.streams[rank]) != cudaSuccess) return sparsecollCudaError;
            if (cudaGraphLaunch(two[rank], twins.streams[rank]) != cudaSuccess) return sparsecollCudaError;
            return sparsecollCommWait(comm, twins.streams[rank], kWaitMs);
          }) == twins.good());
    REQUIRE(twins.same(0, 3));
    for (int i = 0; i < 5; ++i) {
      twins.checkReplay(one, 0, 1);
      if (i % 2 == 0) twins.checkReplay(two, 1, 2);
      if (i == 3) twins.checkStep(2);
    }
    // TopkA sums the frames of all ranks where they lie: ranks that are ahead wait before they overwrite theirs.
    constexpr int kAhead = 15;
    simt::schedule(11);
    twins.advance(0, 1);
    for (int i = 1; i < kAhead; ++i) REQUIRE(twins.host.step() == twins.good());
    twins.expected[0] = twins.host.outs;
    CHECK(onEach(twins.device.ranks(), [&](int rank, sparsecollComm_t comm) {
            for (int i = 0; i < kAhead; ++i) {
              if (cudaGraphLaunch(one[rank], twins.streams[rank]) != cudaSuccess) return sparsecollCudaError;
            }
            return sparsecollCommWait(comm, twins.streams[rank], kWaitMs);
          }) == twins.good());
    simt::schedule(0);
    REQUIRE(twins.same(0, 1));
    checkEmulation();
  }
}

TEST_CASE("other densities, resets and checkpoints between replays") {
  sparsecollReducerConfig_t config = SPARSECOLL_INIT(sparsecollReducerConfig_t);
  config.maxDensity = 0.1;
  config.transactional = GENERATE(0, 1);
  Twins twins(2, 501, preset("topka", 0.02), &config);
  REQUIRE(twins.made());
  twins.makeVectors(1);
  RankGraphs graphs(2);
  REQUIRE(twins.capture(graphs, 0, 1) == twins.good());
  const auto onBoth = [&](const std::function<sparsecollResult_t(int, sparsecollReducer_t)>& body) {
    CHECK(twins.host.each(body) == twins.good());
    CHECK(twins.device.each(body) == twins.good());
  };
  twins.checkReplay(graphs, 0, 1);
  onBoth([](int, sparsecollReducer_t reducer) { return sparsecollReducerSetDensity(reducer, 0.1); });
  twins.checkReplay(graphs, 0, 1);
  twins.checkStep(0);
  onBoth([](int, sparsecollReducer_t reducer) { return sparsecollReducerReset(reducer, nullptr); });
  twins.checkReplay(graphs, 0, 1);
  for (int times = 0; times < 2; ++times) {
    CHECK(twins.host.each([&](int rank, sparsecollReducer_t reducer) {
      return sparsecollReducerGiveBack(reducer, twins.host.outs[static_cast<size_t>(rank)].data(), 1, nullptr);
    }) == twins.good());
    CHECK(twins.device.each([&](int rank, sparsecollReducer_t reducer) {
      return sparsecollReducerGiveBack(reducer, twins.outs[0][static_cast<size_t>(rank)].data(), 1, nullptr);
    }) == twins.good());
    twins.checkReplay(graphs, 0, 1);
  }
  std::vector<Blob> blobs(2);
  CHECK(twins.device.each([&](int rank, sparsecollReducer_t reducer) {
    blobs[static_cast<size_t>(rank)] = exported(reducer);
    return sparsecollSuccess;
  }) == twins.good());
  twins.checkReplay(graphs, 0, 1);
  onBoth([&](int rank, sparsecollReducer_t reducer) { return importInto(reducer, blobs[static_cast<size_t>(rank)]); });
  twins.checkReplay(graphs, 0, 1);
  checkEmulation();
}

TEST_CASE("tensors that are sent dense") {
  for (const char* const name : {"topka", "micro", "gtopk", "spardl"})
    for (const bool transactional : {false, true}) {
      CAPTURE(name, transactional);
      const SentDense tensors(501, transactional);
      sparsecollParams_t params = preset(name, 0.03);
      params.momentum = 0.9;
      Twins twins(3, 501, params, tensors.config());
      REQUIRE(twins.made());
      twins.makeVectors(2);
      RankGraphs graphs(3);
      twins.checkStep(0);
      REQUIRE(twins.capture(graphs, 0, 2) == twins.good());
      twins.checkReplay(graphs, 0, 2);
      twins.checkStep(0);
      for (const size_t at : {size_t{3}, size_t{90}}) {  // sent dense, and not
        for (size_t step = 0; step < 2; ++step) {
          twins.loadGradients(step, 70 + step);
          if (step == 0)
            for (Elements* const gradient : {&twins.host.gradients[1], &twins.gradients[0][1]})
              gradient->set(at, HUGE_VAL);
          REQUIRE(twins.host.step() == twins.good());
          twins.expected[step] = twins.host.outs;
        }
        REQUIRE(twins.replay(graphs) == twins.good());
        REQUIRE(twins.same(0, 2));
      }
      twins.checkReplay(graphs, 0, 2);
      checkEmulation();
    }
}

TEST_CASE("other scales between replays") {
  for (const char* const name : {"topka", "micro", "gtopk", "dense"})
    for (const bool shaped : {false, true}) {
      const bool dense = std::string(name) == "dense";
      CAPTURE(name, shaped);
      sparsecollParams_t params = preset(name, dense ? 0 : 0.03);
      params.momentum = shaped ? 0.9 : 0;
      params.clipNorm = shaped ? 3 : 0;
      params.op = shaped ? sparsecollAvg : sparsecollSum;
      Twins twins(3, 501, params);
      REQUIRE(twins.made());
      twins.makeVectors(2);
      RankGraphs graphs(3);
      const auto setScales = [&](double in, double out) {
        for (const Group* const group : {&twins.host, &twins.device})
          CHECK(group->each([&](int, sparsecollReducer_t reducer) {
            return sparsecollReducerSetScales(reducer, in, out);
          }) == twins.good());
      };
      setScales(0.7, 1.9);
      twins.checkStep(0);
      REQUIRE(twins.capture(graphs, 0, 2) == twins.good());
      twins.checkReplay(graphs, 0, 2);
      for (const double scale : {1024.0, 0.3, 1.0}) {
        CAPTURE(scale);
        setScales(1 / scale, scale);
        twins.checkReplay(graphs, 0, 2);
        setScales(2 / scale, scale / 2);  // what is given back now left with the scale before
        if (!dense) {
          CHECK(twins.host.each([&](int rank, sparsecollReducer_t reducer) {
            return sparsecollReducerGiveBack(reducer, twins.host.outs[static_cast<size_t>(rank)].data(), 0.6, nullptr);
          }) == twins.good());
          CHECK(twins.device.each([&](int rank, sparsecollReducer_t reducer) {
            return sparsecollReducerGiveBack(reducer, twins.outs[1][static_cast<size_t>(rank)].data(), 0.6, nullptr);
          }) == twins.good());
        }
        twins.checkStep(0);
        twins.checkReplay(graphs, 0, 2);
      }
      checkEmulation();
    }
}

TEST_CASE("sparse sums") {
  constexpr uint64_t n = 501;
  Twins twins(3, n, preset("micro", 0.04));
  REQUIRE(twins.made());
  twins.makeVectors(1);
  RankGraphs graphs(3);
  std::vector<std::unique_ptr<SparseVector>> expected, sums;
  for (int rank = 0; rank < 3; ++rank) {
    expected.push_back(std::make_unique<SparseVector>(sparsecollFloat32, n, n));
    sums.push_back(std::make_unique<SparseVector>(sparsecollFloat32, n, n));
  }
  const auto captured = [&](int rank, sparsecollComm_t) {
    const auto r = static_cast<size_t>(rank);
    return captureGraph(twins.streams[rank], &graphs[rank], [&] {
      return sparsecollReducerRunSparse(twins.device.reducer(rank), twins.gradients[0][r].data(), sums[r]->view(),
                                        twins.streams[rank]);
    });
  };
  REQUIRE(onEach(twins.device.ranks(), captured) == twins.good());
  for (uint64_t replay = 0; replay < 4; ++replay) {
    CAPTURE(replay);
    twins.loadGradients(0, replay);
    REQUIRE(twins.host.each([&](int rank, sparsecollReducer_t reducer) {
      const auto r = static_cast<size_t>(rank);
      return sparsecollReducerRunSparse(reducer, twins.host.gradients[r].data(), expected[r]->view(), nullptr);
    }) == twins.good());
    REQUIRE(twins.replay(graphs) == twins.good());
    for (size_t r = 0; r < sums.size(); ++r) {
      REQUIRE(sums[r]->count() == expected[r]->count());
      REQUIRE(sums[r]->count() > 0);
      for (size_t i = 0; i < sums[r]->count(); ++i) {
        REQUIRE(sums[r]->index(i) == expected[r]->index(i));
        REQUIRE(sums[r]->value(i) == expected[r]->value(i));
      }
    }
  }
  checkEmulation();
}
