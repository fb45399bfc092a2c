// Steps captured in graphs and replayed: the bits of steps that are run, whatever is captured, run and replayed in
// which order. The host stands in for steps that are run: presets_test.cpp compares the two.
#include <atomic>
#include <chrono>
#include <thread>

#include "tests/simt/simt.h"
#include "tests/support/catch.h"
#include "tests/support/replays.h"

using namespace sparsecoll::test;

namespace {

constexpr int kDevice = 0;
constexpr uint64_t kWaitMs = 60000;

#ifdef SPARSECOLL_TEST_SANITIZED
constexpr int kRankCounts[] = {1, 3};
constexpr uint64_t kLength = 1001;
constexpr int kManyReplays[] = {10, 10};
#else
constexpr int kRankCounts[] = {1, 2, 3, 4, 8};
constexpr uint64_t kLength = 1511;
constexpr int kManyReplays[] = {1000, 100};
#endif

std::vector<std::string> presets() {
  std::vector<std::string> names;
  for (uint32_t i = 0; sparsecollPresetName(i) != nullptr; ++i) names.emplace_back(sparsecollPresetName(i));
  return names;
}

// A device's group beside a host's that goes through the same steps.
class Twins {
 public:
  Twins(int ranks, uint64_t n, const sparsecollParams_t& params, const sparsecollReducerConfig_t* config = nullptr)
      : host(ranks, n, sparsecollFloat32, params, config),
        device(ranks, n, sparsecollFloat32, params, config, nullptr, kDevice),
        streams(ranks),
        good_(static_cast<size_t>(ranks), sparsecollSuccess) {}

  bool made() const { return host.created() == good_ && device.created() == good_; }
  const Results& good() const { return good_; }
  int ranks() const { return device.count(); }

  sparsecollResult_t run(int rank, size_t vectors) {
    return sparsecollReducerRun(device.reducer(rank), gradients[vectors][static_cast<size_t>(rank)].data(),
                                outs[vectors][static_cast<size_t>(rank)].data(), streams[rank]);
  }
  // Room for the vectors of so many steps, at addresses that stay.
  void makeVectors(size_t steps) {
    gradients.assign(steps, device.gradients);
    outs.assign(steps, device.outs);
  }
  Results capture(RankGraphs& graphs, size_t first, size_t steps) {
    return onEach(device.ranks(), [&](int rank, sparsecollComm_t) {
      return captureGraph(streams[rank], &graphs[rank], [&] {
        sparsecollResult_t result = sparsecollSuccess;
        for (size_t s = first; s < first + steps && result == sparsecollSuccess; ++s) result = run(rank, s);
        return result;
      });
    });
  }
  // The same gradients for both.
  void loadGradients(size_t vectors, uint64_t seed) {
    host.fillRandom(seed);
    copyInto(gradients[vectors], host.gradients);
  }
  // New gradients for the steps; the host runs them.
  void advance(size_t first, size_t steps) {
    expected.resize(gradients.size());
    for (size_t s = first; s < first + steps; ++s) {
      loadGradients(s, seed_++);
      REQUIRE(host.step() == good_);
      expected[s] = host.outs;
    }
  }
  Results replay(RankGraphs& graphs) {
    return onEach(device.ranks(), [&](int rank, sparsecollComm_t comm) {
      if (cudaGraphLaunch(graphs[rank], streams[rank]) != cudaSuccess) return sparsecollCudaError;
      return sparsecollCommWait(comm, streams[rank], kWaitMs);
    });
  }
  Results step(size_t vectors) {
    return onEach(device.ranks(), [&](int rank, sparsecollComm_t comm) {
      const sparsecollResult_t result = run(rank, vectors);
      return result == sparsecollSuccess ? sparsecollCommWait(comm, streams[rank], kWaitMs) : result;
    });
  }
  bool same(size_t first, size_t steps) {
    for (size_t s = first; s < first + steps; ++s)
      if (!(outs[s] == expected[s])) return false;
    for (int rank = 0; rank < ranks(); ++rank)
      if (!(device.residual(rank) == host.residual(rank))) return false;
    return true;
  }
  // A replay, and what steps would have given.
  void checkReplay(RankGraphs& graphs, size_t first, size_t steps) {
    advance(first, steps);
    REQUIRE(replay(graphs) == good_);
    REQUIRE(same(first, steps));
  }
  void checkStep(size_t vectors) {
    advance(vectors, 1);
    REQUIRE(step(vectors) == good_);
    REQUIRE(same(vectors, 1));
  }

  Group host, device;
  RankStreams streams;
  std::vector<std::vector<Elements>> gradients, outs, expected;  // by step and rank

 private:
  // The same memory with other content.
  static void copyInto(std::vector<Elements>& to, const std::vector<Elements>& from) {
    for (size_t r = 0; r < to.size(); ++r) std::memcpy(to[r].data(), from[r].data(), from[r].byteCount());
  }
  Results good_;
  uint64_t seed_ = 0;
};

void checkEmulation() {
  for (const simt::Error& error : simt::errors()) FAIL_CHECK(error.message);
  simt::clearErrors();
}

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
  for (const std::string& name : presets())
    for (const int ranks : kRankCounts) checkPreset(name, ranks, 0, 0);
}

TEST_CASE("as published, and under another order of all threads") {
  for (const std::string& name : presets()) checkPreset(name, 3, 1, 7);
}

TEST_CASE("a thousand replays") { checkManyReplays("topka", kManyReplays[0]); }
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
      return sparsecollReducerGiveBack(reducer, twins.host.outs[static_cast<size_t>(rank)].data(), nullptr);
    }) == twins.good());
    CHECK(twins.device.each([&](int rank, sparsecollReducer_t reducer) {
      return sparsecollReducerGiveBack(reducer, twins.outs[0][static_cast<size_t>(rank)].data(), nullptr);
    }) == twins.good());
    twins.checkReplay(graphs, 0, 1);
  }
  std::vector<std::vector<std::byte>> blobs(2);
  CHECK(twins.device.each([&](int rank, sparsecollReducer_t reducer) {
    auto& blob = blobs[static_cast<size_t>(rank)];
    size_t bytes = 0;
    sparsecollResult_t result = sparsecollReducerExport(reducer, nullptr, &bytes, nullptr);
    blob.resize(bytes);
    if (result == sparsecollSuccess) result = sparsecollReducerExport(reducer, blob.data(), &bytes, nullptr);
    return result;
  }) == twins.good());
  twins.checkReplay(graphs, 0, 1);
  onBoth([&](int rank, sparsecollReducer_t reducer) {
    const auto& blob = blobs[static_cast<size_t>(rank)];
    return sparsecollReducerImport(reducer, blob.data(), blob.size(), nullptr);
  });
  twins.checkReplay(graphs, 0, 1);
  checkEmulation();
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
  CHECK(twins.capture(graphs, 0, 1) == twins.good());
  twins.checkReplay(graphs, 0, 1);
  CHECK(twins.device.each([](int, sparsecollReducer_t reducer) { return sparsecollReducerReset(reducer, nullptr); }) ==
        all(2, sparsecollInvalidUsage));
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
  // A stream in common would wait for itself.
  CHECK(onEach(twins.device.ranks(), [&](int rank, sparsecollComm_t) {
          const auto r = static_cast<size_t>(rank);
          return sparsecollReducerRun(twins.device.reducer(rank), twins.gradients[0][r].data(), twins.outs[0][r].data(),
                                      nullptr);
        }) == all(2, sparsecollInvalidUsage));
  twins.checkStep(0);
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
