// Clipping, momentum and a fading residual, where the random cases of the oracle do not look: what they amount to when
// everything is sent, steps that are taken back, NaN and Inf.
#include "tests/support/catch.h"

#include <cmath>
#include <string>

#include "tests/support/group.h"

using namespace sparsecoll::test;

namespace {

sparsecollParams_t shaped(double density, double momentum, uint32_t flags = 0) {
  sparsecollParams_t params = preset("topka", density);
  params.momentum = momentum;
  params.flags = flags;
  return params;
}

// Sums over ranks of the gradients, whole numbers.
std::vector<double> summed(const Group& group) {
  std::vector<double> sum(group.outs[0].size());
  for (const Elements& gradient : group.gradients)
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += gradient[i];
  return sum;
}

}  // namespace

TEST_CASE("with everything sent and velocity kept, out is the momentum of the dense sum") {
  for (const uint32_t flags : {SPARSECOLL_MOMENTUM_KEPT, SPARSECOLL_MOMENTUM_KEPT | SPARSECOLL_NESTEROV}) {
    Group group(3, 9001, sparsecollFloat32, shaped(1, 0.5, flags));
    REQUIRE(group.created() == all(3, sparsecollSuccess));
    std::vector<double> velocity(9001);
    for (uint64_t step = 0; step < 5; ++step) {
      group.fillIntegers(step);
      const std::vector<double> gradient = summed(group);
      REQUIRE(group.step() == all(3, sparsecollSuccess));
      size_t wrong = 0;
      for (size_t i = 0; i < velocity.size(); ++i) {
        velocity[i] = 0.5 * velocity[i] + gradient[i];
        const bool nesterov = (flags & SPARSECOLL_NESTEROV) != 0;
        if (group.outs[0][i] != (nesterov ? gradient[i] + 0.5 * velocity[i] : velocity[i])) ++wrong;
      }
      CHECK(wrong == 0);
      CHECK(group.outsEqual());
    }
  }
}

TEST_CASE("with everything sent and velocity cleared where it was sent, momentum does nothing") {
  Group masked(2, 700, sparsecollFloat32, shaped(1, 0.9));
  Group plain(2, 700, sparsecollFloat32, shaped(1, 0));
  for (uint64_t step = 0; step < 4; ++step) {
    for (Group* group : {&masked, &plain}) {
      group->fillRandom(step);
      REQUIRE(group->step() == all(2, sparsecollSuccess));
    }
    CHECK((masked.outs[0] == plain.outs[0]));
  }
}

TEST_CASE("a clipped gradient has the norm clipNorm / sqrt(P), a shorter one is left alone") {
  for (const int ranks : {1, 4})
    for (const double inputScale : {1.0, -0.01}) {
      CAPTURE(ranks, inputScale);
      sparsecollParams_t params = preset("topka", 1e-9);  // all but one entry stay in the residual
      params.clipNorm = 3;
      params.inputScale = inputScale;
      Group group(ranks, 20000, sparsecollFloat32, params);
      group.fillRandom(1, 100);
      group.gradients[0].fill(0);
      group.gradients[0].set(7, 0.5);
      REQUIRE(group.step() == all(ranks, sparsecollSuccess));
      if (ranks == 1) CHECK(group.outs[0][7] == Approx(0.5 * inputScale));
      for (int rank = 1; rank < ranks; ++rank) {
        const Elements residual = group.residual(rank);
        double squares = 0;
        double largest = 0;
        for (size_t i = 0; i < residual.size(); ++i) {
          squares += residual[i] * residual[i];
          largest = std::max(largest, std::abs(group.gradients[static_cast<size_t>(rank)][i]));
        }
        // The one entry that went was the largest.
        double norm = 0;
        for (size_t i = 0; i < residual.size(); ++i) norm += std::pow(group.gradients[static_cast<size_t>(rank)][i], 2);
        squares += std::pow(largest * 1.5, 2) / norm;
        CHECK(std::sqrt(squares) == Approx(1.5).epsilon(1e-5));
      }
    }
}

TEST_CASE("a gradient whose norm is not finite is not clipped") {
  sparsecollParams_t params = preset("topka", 0.5);
  params.clipNorm = 1;
  Group group(1, 4, sparsecollFloat64, params);
  group.gradients[0].set(0, 1e200);  // its square overflows
  group.gradients[0].set(1, 4);
  REQUIRE(group.step() == all(1, sparsecollSuccess));
  CHECK(group.outs[0][0] == 1e200);
  CHECK(group.outs[0][1] == 4);
  group.gradients[0].set(0, std::nan(""));
  REQUIRE(group.step() == all(1, sparsecollSuccess));
  CHECK(std::isnan(group.outs[0][0]));
  CHECK(group.outs[0][1] == 4);
}

TEST_CASE("a fading residual loses its share in every step and nothing else") {
  sparsecollParams_t params = preset("topka", 0);
  params.flags = SPARSECOLL_SELECT_NOTHING;
  params.residualDecay = 0.5;
  Group group(1, 3, sparsecollFloat32, params);
  group.gradients[0].fill(8);
  for (const double wanted : {8.0, 12.0, 14.0, 15.0}) {
    REQUIRE(group.step() == all(1, sparsecollSuccess));
    CHECK(group.residual(0)[1] == wanted);
  }
}

TEST_CASE("a transactional step with NaN leaves velocity as it was") {
  sparsecollReducerConfig_t config = SPARSECOLL_INIT(sparsecollReducerConfig_t);
  config.transactional = 1;
  for (const uint32_t flags : {0u, SPARSECOLL_MOMENTUM_KEPT}) {
    Group disturbed(2, 9001, sparsecollFloat32, shaped(0.01, 0.9, flags), &config);
    Group calm(2, 9001, sparsecollFloat32, shaped(0.01, 0.9, flags), &config);
    for (uint64_t step = 0; step < 6; ++step) {
      if (step % 2 == 1) {
        disturbed.fillRandom(90 + step);
        disturbed.gradients[1].set(17, step == 1 ? std::nan("") : HUGE_VAL);
        REQUIRE(disturbed.step() == all(2, sparsecollSuccess));
      }
      for (Group* group : {&disturbed, &calm}) {
        group->fillRandom(step);
        REQUIRE(group->step() == all(2, sparsecollSuccess));
      }
      for (int rank = 0; rank < 2; ++rank) {
        CHECK((disturbed.residual(rank) == calm.residual(rank)));
        CHECK((disturbed.outs[static_cast<size_t>(rank)] == calm.outs[static_cast<size_t>(rank)]));
      }
    }
  }
}

namespace {

constexpr sparsecollChoice_t kTurns[] = {{0, sparsecollSelectTopK, sparsecollCollAllGather},
                                         {2, sparsecollSelectDefault, sparsecollCollDense},
                                         {3, sparsecollSelectTopK, sparsecollCollAllGather}};

struct VelocityCase {
  std::string preset;
  int transactional;
  bool keepsResidual() const { return preset != "dense"; }
};

const VelocityCase kVelocityCases[] = {{"topka", 0}, {"topka", 1}, {"dense", 0}, {"auto", 0}};

}  // namespace

TEST_CASE("velocity in the caller's memory has the library's bits, outlives the reducer, and goes on in another one") {
  for (const VelocityCase& one : kVelocityCases)
    for (const uint32_t flags : {0u, SPARSECOLL_NESTEROV}) {
      CAPTURE(one.preset, one.transactional, flags);
      constexpr uint64_t kLength = 9001;
      sparsecollParams_t params = preset(one.preset.c_str(), one.keepsResidual() ? 0.01 : 0);
      params.momentum = 0.9;
      params.flags = flags;
      sparsecollReducerConfig_t config = SPARSECOLL_INIT(sparsecollReducerConfig_t);
      config.transactional = one.transactional;
      if (one.preset == "auto") {
        config.plan = kTurns;
        config.planCount = std::size(kTurns);
      }
      Group own(2, kLength, sparsecollFloat32, params, &config);
      REQUIRE(own.created() == all(2, sparsecollSuccess));
      Ranks ranks(2);
      const size_t held = kLength * (one.transactional != 0 ? 2 : 1);
      std::vector<std::vector<float>> residuals(2, std::vector<float>(held)), velocities = residuals;
      const auto run = [&](uint64_t begin, uint64_t end) {
        std::vector<sparsecollReducer_t> reducers(2);
        REQUIRE(onEach(ranks, [&](int rank, sparsecollComm_t comm) {
                  const auto r = static_cast<size_t>(rank);
                  sparsecollReducerConfig_t callers = config;
                  callers.buffer = one.keepsResidual() ? residuals[r].data() : nullptr;
                  callers.velocity = velocities[r].data();
                  return sparsecollReducerCreate(&reducers[r], kLength, sparsecollFloat32, &params, &callers, comm);
                }) == all(2, sparsecollSuccess));
        for (uint64_t step = begin; step < end; ++step) {
          own.fillRandom(step);
          std::vector<Elements> outs = own.gradients;
          REQUIRE(onEach(ranks, [&](int rank, sparsecollComm_t) {
                    const auto r = static_cast<size_t>(rank);
                    return sparsecollReducerRun(reducers[r], outs[r].data(), outs[r].data(), nullptr);
                  }) == all(2, sparsecollSuccess));
          REQUIRE(own.step() == all(2, sparsecollSuccess));
          CAPTURE(step);
          CHECK((outs[0] == own.outs[0]));
          CHECK((outs[1] == own.outs[1]));
        }
        for (sparsecollReducer_t reducer : reducers) CHECK(sparsecollReducerDestroy(reducer) == sparsecollSuccess);
      };
      run(0, 4);  // an even number: a transactional reducer begins with the first half
      const std::vector<std::vector<float>> after = velocities;
      CHECK(after[0] != after[1]);
      run(4, 6);
      CHECK(velocities[0] != after[0]);
    }
}

TEST_CASE("a reducer that moves copies velocity out of the caller's memory, which is none of its own") {
  constexpr uint64_t kLength = 9001;
  constexpr uint64_t kBytes = kLength * sizeof(float);
  sparsecollParams_t params = preset("topka", 0.01);
  params.momentum = 0.9;
  Group own(2, kLength, sparsecollFloat32, params);
  REQUIRE(own.created() == all(2, sparsecollSuccess));
  own.fillRandom(1);
  std::vector<std::vector<float>> residuals(2, std::vector<float>(kLength)), velocities = residuals, before;
  std::vector<sparsecollReducer_t> callers(2), moved(2), ownMoved(2);
  std::vector<sparsecollComm_t> split(2);
  REQUIRE(own.each([&](int rank, sparsecollReducer_t) {
    const auto r = static_cast<size_t>(rank);
    sparsecollReducerConfig_t config = SPARSECOLL_INIT(sparsecollReducerConfig_t);
    config.buffer = residuals[r].data();
    config.velocity = velocities[r].data();
    return sparsecollReducerCreate(&callers[r], kLength, sparsecollFloat32, &params, &config, own.ranks()[rank]);
  }) == all(2, sparsecollSuccess));
  CHECK(own.info().workspaceBytes >= infoOf(callers[0]).workspaceBytes + 2 * kBytes);
  // Steps of both, which have to have the same bits.
  const auto step = [&](const std::vector<sparsecollReducer_t>& one, const std::vector<sparsecollReducer_t>& other) {
    std::vector<Elements> outs = own.gradients, others = own.gradients;
    REQUIRE(own.each([&](int rank, sparsecollReducer_t) {
      const auto r = static_cast<size_t>(rank);
      const auto result = sparsecollReducerRun(one[r], outs[r].data(), outs[r].data(), nullptr);
      if (result != sparsecollSuccess) return result;
      return sparsecollReducerRun(other[r], others[r].data(), others[r].data(), nullptr);
    }) == all(2, sparsecollSuccess));
    CHECK((outs == others));
  };
  for (int i = 0; i < 3; ++i) step({own.reducer(0), own.reducer(1)}, callers);
  REQUIRE(own.each([&](int rank, sparsecollReducer_t reducer) {
    const auto r = static_cast<size_t>(rank);
    auto result = sparsecollCommSplit(own.ranks()[rank], 0, rank, &split[r], nullptr);
    if (result == sparsecollSuccess) result = sparsecollReducerMove(reducer, split[r], &ownMoved[r], nullptr);
    if (result == sparsecollSuccess) result = sparsecollReducerMove(callers[r], split[r], &moved[r], nullptr);
    return result;
  }) == all(2, sparsecollSuccess));
  before = velocities;
  for (int i = 0; i < 3; ++i) step(ownMoved, moved);
  CHECK(velocities == before);
  CHECK(infoOf(moved[0]).workspaceBytes == infoOf(ownMoved[0]).workspaceBytes);
  for (const auto* const reducers : {&moved, &ownMoved, &callers})
    for (sparsecollReducer_t reducer : *reducers) CHECK(sparsecollReducerDestroy(reducer) == sparsecollSuccess);
  for (sparsecollComm_t comm : split) CHECK(sparsecollCommDestroy(comm) == sparsecollSuccess);
}

TEST_CASE("NaN and Inf do not stay in the velocity") {
  for (const bool fails : {false, true})
    for (const uint32_t flags : {0u, SPARSECOLL_MOMENTUM_KEPT, SPARSECOLL_NESTEROV}) {
      CAPTURE(fails, flags);
      sparsecollConfig_t config = SPARSECOLL_INIT(sparsecollConfig_t);
      config.nonFinite = fails ? sparsecollNonFiniteError : sparsecollNonFinitePropagate;
      Group group(2, 500, sparsecollFloat32, shaped(0.01, 0.9, flags), nullptr, &config);
      for (uint64_t step = 0; step < 6; ++step) {
        group.fillRandom(step);
        if (step == 2)
          for (size_t i = 100; i < 140; ++i) group.gradients[0].set(i, i % 2 == 0 ? std::nan("") : HUGE_VAL);
        REQUIRE(group.step() == all(2, step == 2 && fails ? sparsecollNonFinite : sparsecollSuccess));
        bool finite = true;
        for (int rank = 0; rank < 2; ++rank) {
          const Elements residual = group.residual(rank);
          for (size_t i = 0; i < 500; ++i)
            finite = finite && std::isfinite(residual[i]) && (step == 2 || std::isfinite(group.outs[0][i]));
        }
        CHECK(finite);
      }
    }
}

TEST_CASE("what is given back comes to the residual, and its velocity stays cleared") {
  Group group(1, 10, sparsecollFloat32, shaped(0.1, 0.5));
  group.gradients[0].fill(1);
  group.gradients[0].set(4, 8);
  REQUIRE(group.step() == all(1, sparsecollSuccess));
  CHECK(group.outs[0][4] == 8);
  REQUIRE(sparsecollReducerGiveBack(group.reducer(0), group.outs[0].data(), 1, nullptr) == sparsecollSuccess);
  CHECK(group.residual(0)[4] == 8);
  group.gradients[0].fill(0);
  REQUIRE(group.step() == all(1, sparsecollSuccess));
  CHECK(group.outs[0][4] == 8);        // a velocity of 8 would have added 4
  CHECK(group.residual(0)[3] == 1.5);  // 1, and half of its velocity
  CHECK(group.stats(0).lastSelected == 1);
}

TEST_CASE("one-shot calls refuse what needs a state") {
  sparsecollParams_t params = shaped(0.5, 0.9);
  Group group(1, 100, sparsecollFloat32, params);
  REQUIRE(group.created() == all(1, sparsecollSuccess));
  const auto reduce = [&](const sparsecollParams_t& with) {
    return sparsecollAllReduce(group.gradients[0].data(), group.outs[0].data(), 100, sparsecollFloat32, &with,
                               group.ranks()[0], nullptr);
  };
  CHECK(reduce(params) == sparsecollInvalidArgument);
  params = preset("topka", 0.5);
  params.residualDecay = 0.5;
  CHECK(reduce(params) == sparsecollInvalidArgument);
  params.residualDecay = 0;
  params.clipNorm = 1;
  CHECK(reduce(params) == sparsecollSuccess);
  SparseVector picked(sparsecollFloat32, 100, 100);
  CHECK(sparsecollSelect(group.gradients[0].data(), 100, sparsecollFloat32, &params, picked.view(), group.ranks()[0],
                         nullptr) == sparsecollUnsupported);
}

TEST_CASE("an average over contributors cannot be given back") {
  sparsecollParams_t params = preset("topka", 0.5);
  params.op = sparsecollAvg;
  params.flags = SPARSECOLL_AVERAGE_CONTRIBUTORS;
  Group group(2, 4, sparsecollFloat32, params);
  const double gradients[2][4] = {{4, 3, 0, 1}, {0, 5, 6, 1}};
  for (size_t r = 0; r < 2; ++r)
    for (size_t i = 0; i < 4; ++i) group.gradients[r].set(i, gradients[r][i]);
  REQUIRE(group.step() == all(2, sparsecollSuccess));
  const double wanted[] = {4, 4, 6, 0};  // one rank's, both ranks', one rank's, nobody's
  for (size_t i = 0; i < 4; ++i) CHECK(group.outs[0][i] == wanted[i]);
  CHECK(sparsecollReducerGiveBack(group.reducer(0), group.outs[0].data(), 1, nullptr) == sparsecollUnsupported);
  params.collective = sparsecollCollIndexUnion;  // every rank is in every entry of the union
  Group united(2, 4, sparsecollFloat32, params);
  for (size_t r = 0; r < 2; ++r) united.gradients[r] = group.gradients[r];
  REQUIRE(united.step() == all(2, sparsecollSuccess));
  CHECK(united.outs[0][0] == 2);
  CHECK(sparsecollReducerGiveBack(united.reducer(0), united.outs[0].data(), 1, nullptr) == sparsecollSuccess);
}

TEST_CASE("what was added to out cannot be given back") {
  sparsecollParams_t params = preset("topka", 0.5);
  params.flags = SPARSECOLL_ACCUMULATE;
  Group group(1, 4, sparsecollFloat32, params);
  REQUIRE(group.step() == all(1, sparsecollSuccess));
  CHECK(sparsecollReducerGiveBack(group.reducer(0), group.outs[0].data(), 1, nullptr) == sparsecollUnsupported);
}
