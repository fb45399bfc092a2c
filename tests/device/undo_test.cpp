// Steps that come to nothing on devices: transactional reducers, and NaN and Inf as an error. What the host learns at
// once a device decides by itself and CommWait tells; residual, sum and what is told later are the host's.
#include <cmath>
#include <optional>
#include <string>

#include "tests/device/checks.h"
#include "tests/support/group.h"
#include "tests/support/presets.h"

using namespace sparsecoll::test;

namespace {

#ifdef SPARSECOLL_TEST_SANITIZED
constexpr int kRankCounts[] = {3};
constexpr uint64_t kLength = 1501;
#else
constexpr int kRankCounts[] = {1, 2, 3, 4};
constexpr uint64_t kLength = 9001;
#endif

struct Way {
  bool transactional = false;
  bool isError = false;
  double momentum = 0;
};

// The same reducer in host memory and on a device, fed with the same gradients.
class Both {
 public:
  Both(const std::string& name, int ranks, const Way& way, uint64_t n = kLength) {
    sparsecollParams_t params = preset(name.c_str(), name == "dense" ? 0 : 0.02);
    params.momentum = way.momentum != 0 ? way.momentum : params.momentum;
    sparsecollReducerConfig_t reducerConfig = SPARSECOLL_INIT(sparsecollReducerConfig_t);
    reducerConfig.transactional = way.transactional ? 1 : 0;
    sparsecollConfig_t config = SPARSECOLL_INIT(sparsecollConfig_t);
    if (way.isError) config.nonFinite = sparsecollNonFiniteError;
    host_.emplace(ranks, n, sparsecollFloat32, params, &reducerConfig, &config);
    device_.emplace(ranks, n, sparsecollFloat32, params, &reducerConfig, &config, kDevice);
    CHECK(device_->created() == host_->created());
    usable_ = host_->created() == all(ranks, sparsecollSuccess) && device_->created() == host_->created();
  }
  ~Both() { checkEmulation(); }

  bool usable() const { return usable_; }
  Group& host() { return *host_; }
  Group& device() { return *device_; }

  void fill(uint64_t seed) {
    host_->fillRandom(seed);
    device_->fillRandom(seed);
  }
  void poison(int rank, uint64_t index, double value) {
    for (Group* const group : {&*host_, &*device_}) group->gradients[static_cast<size_t>(rank)].set(index, value);
  }

  // A step of both; on the device it has to be enqueued without a failure, whatever the host's ends with.
  void step(sparsecollResult_t onHost) {
    CHECK(host_->step() == all(host_->count(), onHost));
    CHECK(device_->step() == all(host_->count(), sparsecollSuccess));
  }
  Results wait() {
    return device_->each(
        [&](int rank, sparsecollReducer_t) { return sparsecollCommWait(device_->ranks()[rank], nullptr, 0); });
  }
  void checkResiduals() {
    for (int rank = 0; rank < host_->count(); ++rank) {
      CAPTURE(rank);
      CHECK(device_->residual(rank) == host_->residual(rank));
    }
  }
  void checkOuts() {
    for (size_t r = 0; r < host_->outs.size(); ++r) CHECK(device_->outs[r] == host_->outs[r]);
  }

 private:
  std::optional<Group> host_, device_;
  bool usable_ = false;
};

void checkWay(const std::string& name, int ranks, const Way& way) {
  CAPTURE(name, ranks, way.transactional, way.isError, way.momentum);
  Both both(name, ranks, way);
  if (!both.usable()) return;
  const sparsecollResult_t met = way.isError ? sparsecollNonFinite : sparsecollSuccess;
  both.fill(1);
  both.step(sparsecollSuccess);
  CHECK(both.wait() == all(ranks, sparsecollSuccess));
  both.checkResiduals();

  both.fill(2);
  both.poison(ranks - 1, kLength / 3, HUGE_VAL);
  const std::vector<Elements> before = {both.device().residual(0)};
  both.step(met);
  CHECK(both.wait() == all(ranks, met));
  CHECK(both.wait() == all(ranks, sparsecollSuccess));  // told once
  both.checkResiduals();
  if (way.transactional) CHECK(both.device().residual(0) == before[0]);
  if (!way.isError) both.checkOuts();

  // Nothing to give back after a step that came to nothing.
  for (Group* const group : {&both.host(), &both.device()}) {
    for (Elements& out : group->outs) out.fill(1);
    (void)group->each([&](int rank, sparsecollReducer_t reducer) {
      return sparsecollReducerGiveBack(reducer, group->outs[static_cast<size_t>(rank)].data(), 1, nullptr);
    });
  }
  both.checkResiduals();

  both.fill(3);
  both.step(sparsecollSuccess);
  CHECK(both.wait() == all(ranks, sparsecollSuccess));
  both.checkResiduals();
  both.checkOuts();
  for (int rank = 0; rank < ranks; ++rank) {
    CHECK(both.device().stats(rank).opsNonFinite == both.host().stats(rank).opsNonFinite);
    CHECK(both.device().stats(rank).opsCompleted == both.host().stats(rank).opsCompleted);
  }
}

}  // namespace

TEST_CASE("transactional: a step that met NaN or Inf is undone by kernels, and the next one is good") {
  for (const std::string& name : sparsePresets())
    for (const int ranks : kRankCounts) checkWay(name, ranks, {.transactional = true});
}

TEST_CASE("velocity is undone, too") {
  for (const char* const name : {"topka", "micro", "gtopk"})
    for (const bool isError : {false, true})
      checkWay(name, 2, {.transactional = true, .isError = isError, .momentum = 0.9});
}

TEST_CASE("NaN and Inf as an error: CommWait tells every rank once, and nothing has left the residual") {
  for (const std::string& name : allPresets())
    for (const int ranks : kRankCounts) checkWay(name, ranks, {.isError = true});
}

TEST_CASE("both at once") {
  for (const char* const name : {"topka", "cltk", "spardl", "oktopk", "sparcml-rd"})
    for (const int ranks : {1, 4}) checkWay(name, ranks, {.transactional = true, .isError = true});
}

// A notice of NonFinite must not hold up the steps that are enqueued behind it.
TEST_CASE("steps behind one that met NaN work before anybody has asked") {
  for (const bool transactional : {false, true}) {
    CAPTURE(transactional);
    Both both("topka", 3, {transactional, true});
    REQUIRE(both.usable());
    both.fill(1);
    both.poison(1, 70, -HUGE_VAL);
    both.step(sparsecollNonFinite);
    for (uint64_t step = 2; step < 4; ++step) {
      both.fill(step);
      both.step(sparsecollSuccess);
    }
    both.checkOuts();
    CHECK(both.wait() == all(3, sparsecollNonFinite));
    const sparsecollFailure_t failure = failureOf(both.device().ranks()[0]);
    CHECK(failure.result == sparsecollNonFinite);
    CHECK(std::string(failure.text).find("NaN or Inf in operation") != std::string::npos);
    CHECK(both.wait() == all(3, sparsecollSuccess));
    both.checkResiduals();
  }
}

TEST_CASE("transactional: after a mismatch that kernels found the residual is the one before") {
  for (const int ranks : {2, 4}) {
    CAPTURE(ranks);
    Both both("topka", ranks, {.transactional = true});
    REQUIRE(both.usable());
    both.fill(1);
    both.step(sparsecollSuccess);
    std::vector<Elements> before;
    for (int rank = 0; rank < ranks; ++rank) before.push_back(both.device().residual(rank));
    const auto setDensity = [&](double onTheFirst) {
      for (Group* const group : {&both.host(), &both.device()})
        CHECK(group->each([&](int rank, sparsecollReducer_t reducer) {
          return sparsecollReducerSetDensity(reducer, rank == 0 ? onTheFirst : 0.02);
        }) == all(ranks, sparsecollSuccess));
    };
    setDensity(0.01);
    both.fill(2);
    both.step(sparsecollMismatch);
    both.step(sparsecollMismatch);  // nor does a step in between that nobody has been told of
    CHECK(both.wait() == all(ranks, sparsecollMismatch));
    for (int rank = 0; rank < ranks; ++rank) CHECK(both.device().residual(rank) == before[static_cast<size_t>(rank)]);
    both.checkResiduals();
    setDensity(0.02);
    both.fill(3);
    both.step(sparsecollSuccess);
    CHECK(both.wait() == all(ranks, sparsecollSuccess));
    both.checkResiduals();
    both.checkOuts();
  }
}

// Given back is what the last step delivered, not what a step would have that kernels gave up.
TEST_CASE("after a failure that CommWait has told there is nothing to give back") {
  Both both("topka", 2, {});
  REQUIRE(both.usable());
  both.fill(1);
  CHECK(both.device().each([&](int rank, sparsecollReducer_t reducer) {
    return sparsecollReducerSetDensity(reducer, rank == 0 ? 0.01 : 0.02);
  }) == all(2, sparsecollSuccess));
  CHECK(both.device().step() == all(2, sparsecollSuccess));
  CHECK(both.wait() == all(2, sparsecollMismatch));
  const Elements before = both.device().residual(0);
  both.device().outs[0].fill(1);
  CHECK(sparsecollReducerGiveBack(both.device().reducer(0), both.device().outs[0].data(), 1, nullptr) ==
        sparsecollSuccess);
  CHECK(both.device().residual(0) == before);
}
