// Captured steps of transactional reducers: the bits of steps that are run, and a residual that stays as it was where a
// step comes to nothing, replayed or run.
#include "tests/simt/simt.h"
#include "tests/simt/twins.h"

using namespace sparsecoll::test;

namespace {

constexpr uint64_t kLength = 901;
constexpr size_t kCaptured = 3;

sparsecollReducerConfig_t transactional() {
  sparsecollReducerConfig_t config = SPARSECOLL_INIT(sparsecollReducerConfig_t);
  config.transactional = 1;
  return config;
}

sparsecollParams_t paramsOf(const char* name, double momentum) {
  sparsecollParams_t params = preset(name, 0.03);
  params.momentum = momentum;
  return params;
}

class Transactions : public Twins {
 public:
  Transactions(int ranks, const sparsecollParams_t& params) : Transactions(ranks, params, transactional()) {}

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

 private:
  Transactions(int ranks, const sparsecollParams_t& params, const sparsecollReducerConfig_t& config)
      : Twins(ranks, kLength, params, &config), graphs(ranks) {
    REQUIRE(made());
    makeVectors(kCaptured + 1);
    checkStep(kCaptured);  // leaves the residual in the other buffer
    REQUIRE(capture(graphs, 0, kCaptured) == good());
  }
};

}  // namespace

TEST_CASE("replays and steps in turn") {
  for (uint32_t i = 0; sparsecollPresetName(i) != nullptr; ++i) {
    const char* const name = sparsecollPresetName(i);
    if (std::string(name) == "dense") continue;
    CAPTURE(name);
    Transactions twins(3, paramsOf(name, 0));
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

TEST_CASE("after a capture a step that fails is undone, too") {
  for (const uint64_t launches : {2, 9}) {
    CAPTURE(launches);
    Transactions twins(1, paramsOf("topka", 0.9));
    twins.checkReplay(twins.graphs, 0, kCaptured);
    const Elements before = twins.device.residual(0);
    twins.loadGradients(kCaptured, 7);
    simt::failCall("cudaLaunchKernelEx", launches, cudaErrorLaunchOutOfResources);
    CHECK(twins.step(kCaptured) == all(1, sparsecollCudaError));
    CHECK(twins.device.residual(0) == before);
    checkEmulation();
  }
}
