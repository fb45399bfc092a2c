// Captured steps of transactional reducers: the bits of steps that are run, and a residual that stays as it was where a
// step comes to nothing, replayed or run.
#include "tests/simt/simt.h"
#include "tests/simt/twins.h"
#include "tests/support/presets.h"

using namespace sparsecoll::test;

namespace {

constexpr uint64_t kLength = 901;
constexpr size_t kCaptured = 3;

const sparsecollReducerConfig_t kTransactional = [] {
  sparsecollReducerConfig_t config = SPARSECOLL_INIT(sparsecollReducerConfig_t);
  config.transactional = 1;
  return config;
}();

sparsecollParams_t paramsOf(const char* name, double momentum) {
  sparsecollParams_t params = preset(name, 0.03);
  params.momentum = momentum;
  return params;
}

std::vector<std::string> presets() {
  return sparsePresets();
}

class Transactions : public Twins {
 public:
  Transactions(int ranks, const sparsecollParams_t& params)
      : Twins(ranks, kLength, params, &kTransactional), graphs(ranks) {
    REQUIRE(made());
    makeVectors(kCaptured + 1);
    checkStep(kCaptured);  // leaves the residual in the other buffer
    REQUIRE(capture(graphs, 0, kCaptured) == good());
  }

  // The captured steps with new gradients; in one of them rank 0 meets an infinity.
  void replayWithInfinityIn(size_t poisoned) {
    for (size_t s = 0; s < kCaptured; ++s) {
      loadGradients(s, 100 + s);
      if (s == poisoned)
        for (Elements* const gradient : {&host.gradients[0], &gradients[s][0]}) gradient->set(77, HUGE_VAL);
      REQUIRE(host.step() == good());
      expected[s] = host.outs;
    }
    REQUIRE(replay(graphs) == good());
    REQUIRE(same(0, kCaptured));
  }

  RankGraphs graphs;
};

}  // namespace

TEST_CASE("replays and steps in turn") {
  for (const std::string& name : presets()) {
    CAPTURE(name);
    Transactions twins(3, paramsOf(name.c_str(), 0));
    for (int turn = 0; turn < 2; ++turn) {
      twins.checkReplay(twins.graphs, 0, kCaptured);
      twins.checkStep(kCaptured);
    }
    checkEmulation();
  }
}

TEST_CASE("a replayed step that meets an infinity leaves residual and velocity as they were") {
  for (const char* const name : {"topka", "micro", "spardl"})
    for (const double momentum : {0.0, 0.9})
      for (const int ranks : {1, 3}) {
        CAPTURE(name, momentum, ranks);
        Transactions twins(ranks, paramsOf(name, momentum));
        for (size_t poisoned = 0; poisoned < kCaptured; ++poisoned) twins.replayWithInfinityIn(poisoned);
        twins.checkStep(kCaptured);
        checkEmulation();
      }
}

sparsecollResult_t stepOf(Group& group, const RankStreams& streams, uint64_t seed = 3) {
  group.fillRandom(seed);
  return sparsecollReducerRun(group.reducer(0), group.gradients[0].data(), group.outs[0].data(), streams[0]);
}

// Whatever cannot be enqueued, until everything can.
template <class MakeReady>
void checkFailures(const char* call, uint64_t least, MakeReady makeReady) {
  for (uint64_t skip = 0;; ++skip) {
    CAPTURE(call, skip);
    Group group(1, kLength, sparsecollFloat32, paramsOf("topka", 0.9), &kTransactional, nullptr, kDevice);
    const RankStreams streams(1);
    makeReady(group, streams);
    const Elements before = group.residual(0);
    simt::failCall(call, skip, cudaErrorLaunchOutOfResources);
    const sparsecollResult_t result = stepOf(group, streams, 7);
    simt::forgetFailures();
    checkEmulation();
    if (result == sparsecollSuccess) {
      CHECK(skip >= least);
      CHECK(!(group.residual(0) == before));
      return;
    }
    CHECK(result == sparsecollCudaError);
    CHECK(group.residual(0) == before);
  }
}

TEST_CASE("a step that cannot be enqueued is undone, before a capture and after it") {
  const auto turning = [](Group& group, const RankStreams& streams) {
    REQUIRE(stepOf(group, streams) == sparsecollSuccess);
  };
  const auto staying = [](Group& group, const RankStreams& streams) {
    RankGraphs graphs(1);
    REQUIRE(stepOf(group, streams) == sparsecollSuccess);
    REQUIRE(captureGraph(streams[0], &graphs[0], [&] { return stepOf(group, streams); }) == sparsecollSuccess);
    REQUIRE(cudaGraphLaunch(graphs[0], streams[0]) == cudaSuccess);
    REQUIRE(sparsecollCommWait(group.ranks()[0], streams[0], kWaitMs) == sparsecollSuccess);
  };
  checkFailures("cudaLaunchKernelEx", 17, turning);
  checkFailures("cudaLaunchKernelEx", 19, staying);
}

TEST_CASE("after a capture that failed steps run, and others are captured") {
  Group host(1, kLength, sparsecollFloat32, paramsOf("topka", 0), &kTransactional);
  Group group(1, kLength, sparsecollFloat32, paramsOf("topka", 0), &kTransactional, nullptr, kDevice);
  const RankStreams streams(1);
  RankGraphs graphs(1);
  const auto check = [&](sparsecollResult_t stepped) {
    REQUIRE(stepped == sparsecollSuccess);
    host.fillRandom(3);
    REQUIRE(host.step() == all(1, sparsecollSuccess));
    CHECK(group.outs[0] == host.outs[0]);
    CHECK(group.residual(0) == host.residual(0));
  };
  check(stepOf(group, streams));
  REQUIRE(cudaStreamBeginCapture(streams[0], cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  CHECK(sparsecollReducerGiveBack(group.reducer(0), group.outs[0].data(), 1, streams[0]) == sparsecollInvalidUsage);
  CHECK(sparsecollReducerFlush(group.reducer(0), group.outs[0].data(), streams[0]) == sparsecollInvalidUsage);
  CHECK(sparsecollReducerRun(group.reducer(0), group.gradients[0].data(), nullptr, streams[0]) != sparsecollSuccess);
  cudaGraph_t nothing = nullptr;
  REQUIRE(cudaStreamEndCapture(streams[0], &nothing) == cudaSuccess);
  CHECK(cudaGraphDestroy(nothing) == cudaSuccess);
  check(stepOf(group, streams));
  REQUIRE(captureGraph(streams[0], &graphs[0], [&] { return stepOf(group, streams); }) == sparsecollSuccess);
  REQUIRE(cudaGraphLaunch(graphs[0], streams[0]) == cudaSuccess);
  check(sparsecollCommWait(group.ranks()[0], streams[0], kWaitMs));
  check(stepOf(group, streams));
  checkEmulation();
}
