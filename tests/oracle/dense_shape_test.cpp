// Momentum and clipping in front of the dense collective, which leaves nothing behind.
#include "tests/support/catch.h"

#include <cmath>
#include <string>

#include "tests/oracle/optimiser.h"
#include "tests/support/group.h"
#include "tests/support/node_groups.h"

using namespace sparsecoll::test;

namespace {

constexpr uint64_t kLength = 1000;

sparsecollParams_t dense(double momentum, uint32_t flags = 0) {
  sparsecollParams_t params = preset("dense", 0);
  params.momentum = momentum;
  params.flags = flags;
  return params;
}

}  // namespace

// Gradients of -1, 0 and 1 and a momentum of a half: for three steps every type holds every number exactly.
TEST_CASE("momentum in front of a dense sum is the optimiser's, bit for bit where nothing rounds") {
  for (const sparsecollDataType_t type : kAllTypes)
    for (const int ranks : {1, 4})
      for (const uint32_t flags : {0u, uint32_t{SPARSECOLL_NESTEROV}, uint32_t{SPARSECOLL_MOMENTUM_KEPT}}) {
        CAPTURE(nameOf(type), ranks, flags);
        Group group(ranks, kLength, type, dense(0.5, flags));
        REQUIRE(group.created() == all(ranks, sparsecollSuccess));
        Optimiser optimiser(kLength, 0.5, flags == SPARSECOLL_NESTEROV);
        for (uint64_t step = 0; step < 3; ++step) {
          group.fillIntegers(step, 1);
          REQUIRE(group.step() == all(ranks, sparsecollSuccess));
          CHECK(worst(group.outs[0], optimiser.step(group.gradients)) == 0);
          CHECK(group.outsEqual());
        }
      }
}

// Velocities are rounded on every rank instead of once, each time by at most half a unit of the last place.
TEST_CASE("momentum in front of a dense sum stays within rounding of the optimiser's") {
  for (const bool nesterov : {false, true}) {
    Group group(4, kLength, sparsecollFloat32, dense(0.9, nesterov ? SPARSECOLL_NESTEROV : 0));
    Optimiser optimiser(kLength, 0.9, nesterov);
    for (uint64_t step = 0; step < 20; ++step) {
      group.fillRandom(step);
      REQUIRE(group.step() == all(4, sparsecollSuccess));
      CHECK(worst(group.outs[0], optimiser.step(group.gradients)) < 1e-4);
    }
  }
}

TEST_CASE("out may be the gradient, and dense momentum may be added to it") {
  Group inPlace(2, kLength, sparsecollFloat32, dense(0.5));
  Group added(2, kLength, sparsecollFloat32, dense(0.5, SPARSECOLL_ACCUMULATE));
  Optimiser optimiser(kLength, 0.5, false);
  std::vector<double> total(kLength);
  for (Elements& out : added.outs)
    for (size_t i = 0; i < kLength; ++i) out.set(i, 0);
  for (uint64_t step = 0; step < 3; ++step) {
    inPlace.fillIntegers(step, 4);
    added.fillIntegers(step, 4);
    const std::vector<double> expected = optimiser.step(added.gradients);
    REQUIRE(inPlace.each([&](int rank, sparsecollReducer_t reducer) {
      void* const both = inPlace.gradients[static_cast<size_t>(rank)].data();
      return sparsecollReducerRun(reducer, both, both, nullptr);
    }) == all(2, sparsecollSuccess));
    REQUIRE(added.step() == all(2, sparsecollSuccess));
    for (size_t i = 0; i < kLength; ++i) total[i] += expected[i];
    CHECK(worst(inPlace.gradients[1], expected) == 0);
    CHECK(worst(added.outs[1], total) == 0);
  }
}

TEST_CASE("a dense gradient is clipped to clipNorm / sqrt(P) on every rank") {
  sparsecollParams_t params = dense(0);
  params.clipNorm = 2;
  Group group(4, kLength, sparsecollFloat64, params);
  for (Elements& gradient : group.gradients)
    for (size_t i = 0; i < kLength; ++i) gradient.set(i, 3);
  group.gradients[3].set(0, 0);
  REQUIRE(group.step() == all(4, sparsecollSuccess));
  const double each = 1 / std::sqrt(1000.0);  // of a gradient with norm 1 = 2 / sqrt(4)
  CHECK(group.outs[0][0] == Approx(3 * each));
  CHECK(group.outs[0][5] == Approx(3 * each + 1 / std::sqrt(999.0)));
}

TEST_CASE("dense momentum has state: Reset clears it, Export and Import carry it") {
  Group group(2, kLength, sparsecollFloat32, dense(0.9)), other(2, kLength, sparsecollFloat32, dense(0.9));
  const auto step = [](Group& which, uint64_t seed) {
    which.fillRandom(seed);
    REQUIRE(which.step() == all(2, sparsecollSuccess));
  };
  step(group, 1);
  const Elements first = group.outs[0];
  step(group, 2);
  REQUIRE(group.each([&](int rank, sparsecollReducer_t reducer) {
    return importInto(other.reducer(rank), exported(reducer));
  }) == all(2, sparsecollSuccess));
  step(group, 3);
  step(other, 3);
  CHECK(group.outs == other.outs);
  REQUIRE(group.each([](int, sparsecollReducer_t reducer) { return sparsecollReducerReset(reducer, nullptr); }) ==
          all(2, sparsecollSuccess));
  step(group, 1);
  CHECK(group.outs[0] == first);
}

TEST_CASE("NaN and Inf do not stay in a dense velocity") {
  for (const sparsecollNonFinite_t policy : {sparsecollNonFinitePropagate, sparsecollNonFiniteError}) {
    CAPTURE(policy);
    sparsecollConfig_t config = SPARSECOLL_INIT(sparsecollConfig_t);
    config.nonFinite = policy;
    Group group(2, kLength, sparsecollFloat32, dense(0.5), nullptr, &config);
    group.fillIntegers(1);
    group.gradients[1].set(5, HUGE_VAL);
    const bool fails = policy == sparsecollNonFiniteError;
    REQUIRE(group.step() == all(2, fails ? sparsecollNonFinite : sparsecollSuccess));
    if (!fails) CHECK_FALSE(std::isfinite(group.outs[0][5]));
    const double left = group.gradients[0][5], velocity = group.gradients[0][6] + group.gradients[1][6];
    group.fillIntegers(2);
    REQUIRE(group.step() == all(2, sparsecollSuccess));
    CHECK(group.outs[0][5] == 0.5 * left + group.gradients[0][5] + group.gradients[1][5]);
    CHECK(group.outs[0][6] == 0.5 * velocity + group.gradients[0][6] + group.gradients[1][6]);
  }
}

TEST_CASE("Auto may mean dense with momentum, unless a step has to be undone") {
  sparsecollParams_t params = preset("topka", 0.01);
  params.collective = sparsecollCollAuto;
  params.momentum = 0.9;
  CHECK(Group(1, kLength, sparsecollFloat32, params).info().collective == sparsecollCollDense);
  sparsecollReducerConfig_t config = SPARSECOLL_INIT(sparsecollReducerConfig_t);
  config.transactional = 1;
  CHECK(Group(1, kLength, sparsecollFloat32, params, &config).info().collective == sparsecollCollAllGather);
}

// 2^-26 is no number of Float16, and 65536 times as much is one: that is what a loss is scaled for.
TEST_CASE("small gradients of half precision outlast what is done to them between their scaling and their sum") {
  constexpr double kLossScale = 65536;
  constexpr int kRanks = 4;
  struct Shaped {
    const char* by;
    double momentum, clipNorm;
    int perNode;
  };
  for (const auto& [by, momentum, clipNorm, perNode] :
       {Shaped{"momentum", 0.5, 0, 0}, Shaped{"clipping", 0, 1e6, 0}, Shaped{"nodes", 0, 0, 2},
        Shaped{"nodes that clip", 0, 1e6, 2}, Shaped{"nodes with momentum", 0.5, 0, 2}})
    for (const sparsecollRedOp_t op : {sparsecollSum, sparsecollAvg}) {
      CAPTURE(by, op);
      sparsecollParams_t params = dense(momentum);
      params.op = op;
      params.clipNorm = clipNorm;
      params.inputScale = 1 / kLossScale;
      params.outputScale = kLossScale;
      const sparsecollConfig_t nodes = nodesOf(2);
      Group group(kRanks, kLength, sparsecollFloat16, perNode == 0 ? params : overNodes(params), nullptr,
                  perNode == 0 ? nullptr : &nodes);
      REQUIRE(group.created() == all(kRanks, sparsecollSuccess));
      for (Elements& gradient : group.gradients)
        for (size_t i = 0; i < kLength; ++i) gradient.set(i, 0x1p-26 * kLossScale);
      double expected = 0;
      for (int step = 0; step < 3; ++step) {
        expected = momentum * expected + 0x1p-26 * kLossScale * (op == sparsecollSum ? kRanks : 1);
        REQUIRE(group.step() == all(kRanks, sparsecollSuccess));
        CHECK(worst(group.outs[0], std::vector<double>(kLength, expected)) == 0);
        CHECK(group.outsEqual());
      }
      if (op == sparsecollSum || momentum != 0) continue;
      for (Elements& gradient : group.gradients)
        for (size_t i = 0; i < kLength; ++i) gradient.set(i, 49152);
      REQUIRE(group.step() == all(kRanks, sparsecollSuccess));
      CHECK(worst(group.outs[0], std::vector<double>(kLength, 49152)) == 0);
    }
}
