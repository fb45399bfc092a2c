// What a reducer may be asked for besides its preset: rules for tensors, a sum in the gradient's place, clipping,
// momentum and decay. On devices the bits are the host's.
#include <cmath>
#include <string>

#include "tests/device/checks.h"
#include "tests/support/group.h"
#include "tests/support/presets.h"
#include "tests/support/sent_dense.h"

using namespace sparsecoll::test;

namespace {

#ifdef SPARSECOLL_TEST_SANITIZED
constexpr uint64_t kLength = 1201;
constexpr uint64_t kSegments = 30;
#else
constexpr uint64_t kLength = 6001;
constexpr uint64_t kSegments = 300;
#endif

class Steps {
 public:
  Steps(const sparsecollParams_t& params, const sparsecollReducerConfig_t* config = nullptr)
      : host_(kRanks, kLength, sparsecollFloat32, params, config),
        device_(kRanks, kLength, sparsecollFloat32, params, config, nullptr, kDevice) {
    CHECK(device_.created() == host_.created());
    usable_ = host_.created() == all(kRanks, sparsecollSuccess) && device_.created() == host_.created();
  }

  bool usable() const { return usable_; }
  bool finite() const {
    for (size_t i = 0; i < kLength; ++i)
      if (!std::isfinite(device_.outs[0][i])) return false;
    return true;
  }
  // infinite: rank 0 meets an infinity in the first step.
  void check(bool inPlace, bool infinite = false) {
    for (uint64_t step = 0; step < kSteps; ++step) {
      CAPTURE(step);
      for (Group* const group : {&host_, &device_}) {
        group->fillRandom(step);
        if (infinite && step == 0) group->gradients[0].set(7, HUGE_VAL);
        REQUIRE(run(*group, inPlace) == all(kRanks, sparsecollSuccess));
      }
      for (int rank = 0; rank < kRanks; ++rank) {
        CAPTURE(rank);
        const auto r = static_cast<size_t>(rank);
        CHECK((inPlace ? device_.gradients : device_.outs)[r] == (inPlace ? host_.gradients : host_.outs)[r]);
        CHECK(device_.residual(rank) == host_.residual(rank));
      }
    }
    checkEmulation();
  }

 private:
  static constexpr int kRanks = 2;
  static constexpr uint64_t kSteps = 2;
  static Results run(Group& group, bool inPlace) {
    if (!inPlace) return group.step();
    return group.each([&](int rank, sparsecollReducer_t reducer) {
      void* const vector = group.gradients[static_cast<size_t>(rank)].data();
      return sparsecollReducerRun(reducer, vector, vector, nullptr);
    });
  }

  Group host_, device_;
  bool usable_ = false;
};

}  // namespace

// DEFT has fragments of its own making; tensors give them their bounds.
TEST_CASE("hundreds of tensors, with rules of their own") {
  for (const char* const name : {"topka", "deft"}) {
    CAPTURE(name);
    const bool rules = std::string(name) == "topka";
    std::vector<sparsecollSegment_t> segments(kSegments);
    uint64_t left = kLength;
    for (uint64_t s = 0; s < kSegments; ++s) {
      segments[s].length = s + 1 == kSegments ? left : 1 + (s * 7) % 30;
      segments[s].density = rules && s % 3 == 1 ? 0.3 : 0;
      segments[s].dense = rules && s % 9 == 4 ? 1 : 0;
      left -= segments[s].length;
    }
    sparsecollReducerConfig_t config = SPARSECOLL_INIT(sparsecollReducerConfig_t);
    config.segments = segments.data();
    config.segmentCount = kSegments;
    Steps steps(preset(name, 0.02), &config);
    REQUIRE(steps.usable());
    steps.check(false);
  }
}

TEST_CASE("the sum in the gradient's place") {
  for (const std::string& name : allPresets()) {
    CAPTURE(name);
    Steps steps(preset(name.c_str(), name == "dense" ? 0 : 0.02));
    if (steps.usable()) steps.check(true);
  }
}

TEST_CASE("an infinity does not stay in the velocity of a dense sum") {
  sparsecollParams_t params = preset("dense", 0);
  params.momentum = 0.9;
  Steps steps(params);
  REQUIRE(steps.usable());
  steps.check(false, true);
  CHECK(steps.finite());
}

TEST_CASE("tensors sent dense beside every selection, with momentum") {
  for (const std::string& name : presetsToStep()) {
    if (name == "dense") continue;
    const bool transactional = name.size() % 2 == 0;
    CAPTURE(name, transactional);
    const SentDense tensors(kLength, transactional);
    sparsecollParams_t params = preset(name.c_str(), 0.02);
    params.momentum = 0.9;
    params.clipNorm = 20;
    Steps steps(params, tensors.config());
    REQUIRE(steps.usable());
    steps.check(false, true);
  }
}

TEST_CASE("clipping, momentum and decay on the way into the residual") {
  for (const char* const name : {"topka", "dense"})
    for (const uint32_t flags : {0u, SPARSECOLL_NESTEROV, SPARSECOLL_ACCUMULATE}) {
      CAPTURE(name, flags);
      sparsecollParams_t params = preset(name, std::string(name) == "dense" ? 0 : 0.02);
      params.flags |= flags;
      params.inputScale = 0.25;
      params.clipNorm = 3;
      params.momentum = flags != 0 ? 0.9 : 0;
      params.residualDecay = 0.8;
      Steps steps(params);
      REQUIRE(steps.usable());
      steps.check(false);
    }
}
