// Tensors that are sent dense, with every selector and every collective: their sum is the dense collective's, and all
// others fare as if the gradient were 0 there.
#include "tests/support/catch.h"

#include <cmath>
#include <span>
#include <string>

#include "tests/oracle/optimiser.h"
#include "tests/support/group.h"
#include "tests/support/presets.h"

using namespace sparsecoll::test;

namespace {

constexpr uint64_t kLength = 1000;
constexpr int kRanks = 4;
#ifdef SPARSECOLL_TEST_SANITIZED
constexpr bool kEveryWay = false;  // a pair of selector and collective goes one of the ways, the next one another
#else
constexpr bool kEveryWay = true;
#endif
constexpr sparsecollSegment_t kTensors[] = {
    {100, 0, 1, 0}, {400, 0, 0, 0}, {150, 0, 1, 0}, {50, 0, 1, 0}, {300, 0, 0, 0}};
// The same without a rule.
constexpr sparsecollSegment_t kPlainTensors[] = {
    {100, 0, 0, 0}, {400, 0, 0, 0}, {150, 0, 0, 0}, {50, 0, 0, 0}, {300, 0, 0, 0}};
constexpr uint64_t kSentDense = 300;

bool isSentDense(uint64_t i) { return i < 100 || (i >= 500 && i < 700); }

sparsecollReducerConfig_t configOf(std::span<const sparsecollSegment_t> segments, bool transactional = false) {
  sparsecollReducerConfig_t config = SPARSECOLL_INIT(sparsecollReducerConfig_t);
  config.segments = segments.data();
  config.segmentCount = segments.size();
  config.transactional = transactional ? 1 : 0;
  return config;
}

sparsecollParams_t pairOf(int32_t selector, int32_t collective) {
  sparsecollParams_t params = preset("topka", 0);
  params.selector = selector;
  params.collective = collective;
  params.k = 40;
  return params;
}

struct Way {
  double momentum = 0;
  uint32_t flags = 0;
  bool transactional = false;
  int32_t faithful = 0;
};

// Whole numbers, none of them 0 for sure.
void fill(Group& group, uint64_t step, bool zerosWhereDense) {
  group.fillIntegers(step, 4);
  for (Elements& gradient : group.gradients)
    for (uint64_t i = 0; i < kLength; ++i) gradient.set(i, zerosWhereDense && isSentDense(i) ? 0 : gradient[i] + 9);
}

// Empty, or what is wrong.
std::string problem(sparsecollParams_t params, const Way& way) {
  params.momentum = way.momentum;
  params.flags = way.flags;
  params.faithful = way.faithful;
  const sparsecollReducerConfig_t config = configOf(kTensors, way.transactional);
  const sparsecollReducerConfig_t plain = configOf(kPlainTensors, way.transactional);
  Group group(kRanks, kLength, sparsecollFloat32, params, &config);
  Group rest(kRanks, kLength, sparsecollFloat32, params, &plain);
  if (group.created() != rest.created()) return "not created as without tensors sent dense";
  if (rest.created() != all(kRanks, sparsecollSuccess)) return "";
  if (group.info().k != rest.info().k + kSentDense) return "Info.k";
  // Faithful dgc has a share of k for every tensor, but for those that are sent dense.
  const bool shares = params.selector == sparsecollSelectSampled && way.faithful != 0;
  const uint64_t capacity = rest.info().capacity + kSentDense;
  if (group.info().capacity > capacity || (!shares && group.info().capacity != capacity)) return "Info.capacity";
  const bool nesterov = (way.flags & SPARSECOLL_NESTEROV) != 0;
  Optimiser optimiser(kLength, way.momentum, nesterov);
  for (uint64_t step = 0; step < 4; ++step) {
    fill(group, step, false);
    fill(rest, step, true);
    if (group.step() != all(kRanks, sparsecollSuccess)) return std::string("step: ") + sparsecollGetLastError();
    if (rest.step() != all(kRanks, sparsecollSuccess)) return "the step without tensors sent dense";
    if (!group.outsEqual()) return "the ranks' sums differ";
    const std::vector<double> update = optimiser.step(group.gradients);
    uint64_t bytes = 0;
    for (int rank = 0; rank < kRanks; ++rank) {
      const Elements residual = group.residual(rank), residualOfRest = rest.residual(rank);
      for (uint64_t i = 0; i < kLength; ++i) {
        const bool dense = isSentDense(i);
        if (group.outs[0][i] != (dense ? update[i] : rest.outs[0][i])) return "out[" + std::to_string(i) + "]";
        if (residual[i] != (dense ? 0 : residualOfRest[i])) return "residual[" + std::to_string(i) + "]";
      }
      if (group.stats(rank).lastSelected != rest.stats(rank).lastSelected + kSentDense) return "lastSelected";
      bytes += group.stats(rank).lastBytesSent - rest.stats(rank).lastBytesSent;
    }
    if (bytes != 2 * (kRanks - 1) * kSentDense * sizeof(float)) return "lastBytesSent";  // of all ranks: no indices
  }
  return "";
}

}  // namespace

TEST_CASE("tensors are sent dense with every selector and every collective, with momentum and without") {
  constexpr Way kWays[] = {
      {},
      {.momentum = 0.5},
      {.momentum = 0.5, .flags = SPARSECOLL_NESTEROV, .transactional = true},
      {.momentum = 0.5, .flags = SPARSECOLL_MOMENTUM_KEPT, .faithful = 1},
  };
  int pairs = 0;
  const Ranks ranks(kRanks);
  for (int32_t selector = sparsecollSelectTopK; selector <= sparsecollSelectRandomOfTop; ++selector)
    for (int32_t collective = sparsecollCollAllGather; collective <= sparsecollCollTopkDSA; ++collective) {
      if (collective == sparsecollCollHierarchical) continue;  // goes around others: nodes_test
      CAPTURE(sparsecollSelectorName(selector), sparsecollCollectiveName(collective));
      const sparsecollParams_t params = pairOf(selector, collective);
      if (Reducers(ranks, kLength, sparsecollFloat32, params).result(0) != sparsecollSuccess) continue;
      ++pairs;
      for (size_t w = 0; w < std::size(kWays); ++w) {
        if (!kEveryWay && w != static_cast<size_t>(pairs) % std::size(kWays)) continue;
        CAPTURE(w);
        CHECK(problem(params, kWays[w]) == "");
      }
    }
  CHECK(pairs == 8 + 10 * 7 + 4 * 2);
}

TEST_CASE("a sparse sum has tensors that are sent dense, in all types of elements") {
  for (const int32_t collective : {sparsecollCollAllGather, sparsecollCollIndexUnion, sparsecollCollSparCML})
    for (const int ranks : {1, 3})
      for (const sparsecollDataType_t type : kAllTypes) {
        CAPTURE(sparsecollCollectiveName(collective), ranks, nameOf(type));
        const sparsecollReducerConfig_t config = configOf(kTensors);
        const sparsecollParams_t params = pairOf(sparsecollSelectTopK, collective);
        Group dense(ranks, kLength, type, params, &config), sparse(ranks, kLength, type, params, &config);
        const uint64_t need =
            std::min(kLength, static_cast<uint64_t>(ranks) * (sparse.info().capacity + SPARSECOLL_NON_FINITE_NAMED));
        for (uint64_t step = 0; step < 3; ++step) {
          fill(dense, step, false);
          fill(sparse, step, false);
          REQUIRE(dense.step() == all(ranks, sparsecollSuccess));
          REQUIRE(sparse.each([&](int rank, sparsecollReducer_t reducer) {
            const auto r = static_cast<size_t>(rank);
            SparseVector out(type, kLength, need);
            const auto result = sparsecollReducerRunSparse(reducer, sparse.gradients[r].data(), out.view(), nullptr);
            sparse.outs[r].fill(0);
            for (size_t e = 0; e < out.count(); ++e) sparse.outs[r].set(out.index(e), out.value(e));
            return result;
          }) == all(ranks, sparsecollSuccess));
          CHECK(sparse.outs == dense.outs);
        }
      }
}

TEST_CASE("a step without a selection, and one with nothing to select from, send tensors dense") {
  const sparsecollSegment_t whole[] = {{kLength, 0, 1, 0}};
  for (const std::string& name : sparsePresets())
    for (const bool faithful : {false, true})
      for (const bool everything : {false, true}) {
        CAPTURE(name, faithful, everything);
        sparsecollParams_t params = preset(name.c_str(), everything ? 0.01 : 0);
        params.momentum = 0.5;
        params.faithful = faithful ? 1 : 0;
        if (!everything) params.flags = SPARSECOLL_SELECT_NOTHING;
        const sparsecollReducerConfig_t config = everything ? configOf(whole) : configOf(kTensors);
        Group group(kRanks, kLength, sparsecollFloat32, params, &config);
        REQUIRE(group.created() == all(kRanks, sparsecollSuccess));
        CHECK(group.info().k >= (everything ? kLength : kSentDense));
        Optimiser optimiser(kLength, 0.5, false);
        for (uint64_t step = 0; step < 3; ++step) {
          fill(group, step, false);
          REQUIRE(group.step() == all(kRanks, sparsecollSuccess));
          std::vector<double> expected = optimiser.step(group.gradients);
          for (uint64_t i = 0; i < kLength; ++i)
            if (!everything && !isSentDense(i)) expected[i] = 0;
          CHECK(worst(group.outs[0], expected) == 0);
        }
      }
}

TEST_CASE("a density is of the tensors that are not sent dense, also where it changes") {
  const sparsecollSegment_t densities[] = {
      {100, 0, 1, 0}, {400, 0, 0, 0}, {150, 0, 1, 0}, {50, 0.5, 1, 0}, {300, 0.1, 0, 0}};
  for (const bool own : {false, true}) {
    sparsecollReducerConfig_t config = own ? configOf(densities) : configOf(kTensors);
    config.maxDensity = 0.2;
    Group group(2, kLength, sparsecollFloat32, preset("topka", 0.01), &config);
    REQUIRE(group.created() == all(2, sparsecollSuccess));
    CHECK(group.info().k == kSentDense + (own ? 4 + 30 : 7));
    for (const double density : {0.01, 0.2, 0.05}) {
      CAPTURE(own, density);
      REQUIRE(group.each([&](int, sparsecollReducer_t reducer) {
        return sparsecollReducerSetDensity(reducer, density);
      }) == all(2, sparsecollSuccess));
      fill(group, 1, false);
      REQUIRE(group.step() == all(2, sparsecollSuccess));
      const auto rest = static_cast<uint64_t>(density * (own ? 400 : 700) + 0.5) + (own ? 30 : 0);
      CHECK(group.info().k == kSentDense + rest);
      CHECK(group.stats(0).lastSelected == kSentDense + rest);
    }
  }
}

TEST_CASE("NaN and Inf in a tensor that is sent dense are told as all others, and undo both parts of a step") {
  for (const bool transactional : {false, true})
    for (const bool fails : {false, true})
      for (const uint64_t at : {uint64_t{7}, uint64_t{600}, uint64_t{800}}) {  // the last one is not sent dense
        CAPTURE(transactional, fails, at);
        const sparsecollReducerConfig_t config = configOf(kTensors, transactional);
        sparsecollConfig_t policy = SPARSECOLL_INIT(sparsecollConfig_t);
        policy.nonFinite = fails ? sparsecollNonFiniteError : sparsecollNonFinitePropagate;
        sparsecollParams_t params = pairOf(sparsecollSelectTopK, sparsecollCollAllGather);
        params.momentum = 0.5;
        Group disturbed(2, kLength, sparsecollFloat32, params, &config, &policy);
        Group calm(2, kLength, sparsecollFloat32, params, &config, &policy);
        for (uint64_t step = 0; step < 5; ++step) {
          if (step == 2) {
            fill(disturbed, 77, false);
            disturbed.gradients[1].set(at, at == 7 ? HUGE_VAL : std::nan(""));
            REQUIRE(disturbed.step() == all(2, fails ? sparsecollNonFinite : sparsecollSuccess));
            if (!fails)
              for (const Elements& out : disturbed.outs) CHECK(std::isnan(out[at]));
            CHECK(disturbed.stats(0).opsNonFinite == 1);
            for (int rank = 0; rank < 2; ++rank) {
              const Elements residual = disturbed.residual(rank);
              bool finite = true;
              for (uint64_t i = 0; i < kLength; ++i) finite = finite && std::isfinite(residual[i]);
              CHECK(finite);
            }
          }
          for (Group* const group : {&disturbed, &calm}) {
            fill(*group, step, false);
            REQUIRE(group->step() == all(2, sparsecollSuccess));
          }
          if (!transactional) continue;
          CHECK(disturbed.outs == calm.outs);
          for (int rank = 0; rank < 2; ++rank) CHECK(disturbed.residual(rank) == calm.residual(rank));
        }
      }
}

// What such a step took in is in the residual, tensors that are sent dense included, and comes with the next one.
TEST_CASE("a step that fails before its commit loses nothing of a tensor that is sent dense") {
  for (const bool transactional : {false, true}) {
    CAPTURE(transactional);
    const sparsecollReducerConfig_t config = configOf(kTensors, transactional);
    Group group(2, kLength, sparsecollFloat32, pairOf(sparsecollSelectThreshold, sparsecollCollAllGather), &config);
    fill(group, 1, false);
    const std::vector<Elements> lost = group.gradients;
    REQUIRE(sparsecollReducerSetScales(group.reducer(0), 2, 1) == sparsecollSuccess);
    CHECK(group.step() == all(2, sparsecollMismatch));
    REQUIRE(sparsecollReducerSetScales(group.reducer(0), 1, 1) == sparsecollSuccess);
    const double held = transactional ? 0 : lost[1][600];
    CHECK(group.residual(1)[600] == held);
    CHECK(group.residual(0)[600] == (transactional ? 0 : 2 * lost[0][600]));
    fill(group, 2, false);
    REQUIRE(group.step() == all(2, sparsecollSuccess));
    CHECK(group.outs[0][600] ==
          group.gradients[0][600] + group.gradients[1][600] + (transactional ? 0 : 2 * lost[0][600] + lost[1][600]));
    CHECK(group.residual(1)[600] == 0);
  }
}

// Where a rank hears from few others, some are in the dense sum already when one finds out that they differ.
TEST_CASE("ranks that differ in a relayed schedule all learn it, and go on with what they hold") {
  const auto held = [](const Group& group) {
    std::vector<double> sum(kLength);
    for (int rank = 0; rank < kRanks; ++rank) {
      const Elements residual = group.residual(rank);
      for (uint64_t i = 0; i < kLength; ++i) sum[i] += residual[i];
    }
    return sum;
  };
  for (const int32_t collective : {sparsecollCollGTopk, sparsecollCollSparDL, sparsecollCollSparCML})
    for (int odd = 0; odd < kRanks; ++odd) {
      CAPTURE(sparsecollCollectiveName(collective), odd);
      const sparsecollReducerConfig_t config = configOf(kTensors);
      Group group(kRanks, kLength, sparsecollFloat32, pairOf(sparsecollSelectTopK, collective), &config);
      fill(group, 1, false);
      REQUIRE(sparsecollReducerSetScales(group.reducer(odd), 2, 1) == sparsecollSuccess);
      CHECK(group.step() == all(kRanks, sparsecollMismatch));
      REQUIRE(sparsecollReducerSetScales(group.reducer(odd), 1, 1) == sparsecollSuccess);
      std::vector<double> expected = held(group);
      fill(group, 2, false);
      REQUIRE(group.step() == all(kRanks, sparsecollSuccess));
      const std::vector<double> left = held(group);
      for (uint64_t i = 0; i < kLength; ++i) {
        for (const Elements& gradient : group.gradients) expected[i] += gradient[i];
        expected[i] -= left[i];
      }
      CHECK(worst(group.outs[0], expected) == 0);
    }
}

TEST_CASE("a sum is given back to tensors that are sent dense, and their state travels") {
  const sparsecollReducerConfig_t config = configOf(kTensors);
  sparsecollParams_t params = pairOf(sparsecollSelectGaussian, sparsecollCollIndexUnion);
  params.momentum = 0.5;
  Group group(2, kLength, sparsecollFloat32, params, &config), other(2, kLength, sparsecollFloat32, params, &config);
  fill(group, 1, false);
  REQUIRE(group.step() == all(2, sparsecollSuccess));
  const double sum = group.outs[0][3];
  REQUIRE(group.each([&](int rank, sparsecollReducer_t reducer) {
    return sparsecollReducerGiveBack(reducer, group.outs[static_cast<size_t>(rank)].data(), 1, nullptr);
  }) == all(2, sparsecollSuccess));
  CHECK(group.residual(0)[3] == sum / 2);
  REQUIRE(group.each([&](int rank, sparsecollReducer_t reducer) {
    return importInto(other.reducer(rank), exported(reducer));
  }) == all(2, sparsecollSuccess));
  for (Group* const which : {&group, &other}) {
    fill(*which, 2, false);
    REQUIRE(which->step() == all(2, sparsecollSuccess));
  }
  CHECK(group.outs == other.outs);
  const double second = group.gradients[0][3] + group.gradients[1][3];
  CHECK(group.outs[0][3] == sum + 0.5 * sum + second);  // what came back, and the kept velocity
}

TEST_CASE("an average over contributors goes without tensors that are sent dense, or over all ranks") {
  const sparsecollReducerConfig_t config = configOf(kTensors);
  sparsecollParams_t params = pairOf(sparsecollSelectTopK, sparsecollCollAllGather);
  params.op = sparsecollAvg;
  params.flags = SPARSECOLL_AVERAGE_CONTRIBUTORS;
  CHECK(Group(2, kLength, sparsecollFloat32, params, &config).created() == all(2, sparsecollUnsupported));
  params.collective = sparsecollCollIndexUnion;
  Group group(2, kLength, sparsecollFloat32, params, &config);
  fill(group, 1, false);
  REQUIRE(group.step() == all(2, sparsecollSuccess));
  CHECK(group.outs[0][5] == (group.gradients[0][5] + group.gradients[1][5]) / 2);
}

TEST_CASE("the dense collective sends all tensors dense, whatever the selector") {
  const sparsecollReducerConfig_t config = configOf(kTensors);
  Group group(2, kLength, sparsecollFloat32, pairOf(sparsecollSelectMicro, sparsecollCollDense), &config);
  fill(group, 1, false);
  REQUIRE(group.step() == all(2, sparsecollSuccess));
  Optimiser optimiser(kLength, 0, false);
  CHECK(worst(group.outs[0], optimiser.step(group.gradients)) == 0);
}
