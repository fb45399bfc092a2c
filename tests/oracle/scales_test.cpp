// Scales that change between steps, as those of a loss scaler do: gradients come in multiplied by S, the sum leaves
// multiplied by S, and what lies between them does not know S. Scales are powers of two here, so nothing rounds.
#include "tests/support/catch.h"

#include <cmath>
#include <string>

#include "tests/support/group.h"

using namespace sparsecoll::test;

namespace {

constexpr uint64_t kLength = 1000;
constexpr int kRanks = 3;
constexpr double kLossScales[] = {1024, 1024, 0.5, 65536, 1, 2048};
const double kNaN = std::nan("");

Results setScales(const Group& group, double in, double out) {
  return group.each([&](int, sparsecollReducer_t reducer) { return sparsecollReducerSetScales(reducer, in, out); });
}

Results giveBack(const Group& group, double factor) {
  return group.each([&](int rank, sparsecollReducer_t reducer) {
    return sparsecollReducerGiveBack(reducer, group.outs[static_cast<size_t>(rank)].data(), factor, nullptr);
  });
}

void multiply(std::vector<Elements>& vectors, double factor) {
  for (Elements& vector : vectors)
    for (size_t i = 0; i < vector.size(); ++i) vector.set(i, vector[i] * factor);
}

// One group gets gradients multiplied by S and is told so, the other one gets them as they are.
void checkUnscaledInside(const sparsecollParams_t& params, sparsecollDataType_t type) {
  Group scaled(kRanks, kLength, type, params), plain(kRanks, kLength, type, params);
  if (plain.created() == all(kRanks, sparsecollUnsupported)) return;
  REQUIRE(scaled.created() == all(kRanks, sparsecollSuccess));
  uint64_t seed = 0;
  for (const double lossScale : kLossScales) {
    CAPTURE(lossScale, seed);
    plain.fillRandom(++seed);
    scaled.gradients = plain.gradients;
    multiply(scaled.gradients, lossScale);
    REQUIRE(setScales(scaled, 1 / lossScale, lossScale) == all(kRanks, sparsecollSuccess));
    REQUIRE(scaled.step() == all(kRanks, sparsecollSuccess));
    REQUIRE(plain.step() == all(kRanks, sparsecollSuccess));
    multiply(plain.outs, lossScale);
    CHECK(scaled.outs == plain.outs);
    for (int rank = 0; rank < kRanks; ++rank) CHECK(scaled.residual(rank) == plain.residual(rank));
  }
}

std::vector<double> total(const Group& group) {
  std::vector<double> sum(kLength);
  for (int rank = 0; rank < kRanks; ++rank) {
    const Elements residual = group.residual(rank);
    for (size_t i = 0; i < kLength; ++i) sum[i] += residual[i];
  }
  return sum;
}

}  // namespace

TEST_CASE("residual and velocity stay in unscaled units while the loss scale changes") {
  for (uint32_t p = 0; sparsecollPresetName(p) != nullptr; ++p) {
    const std::string name = sparsecollPresetName(p);
    CAPTURE(name);
    sparsecollParams_t params = preset(name.c_str(), name == "dense" ? 0 : 0.03);
    for (const sparsecollDataType_t type : {sparsecollFloat32, sparsecollFloat64}) checkUnscaledInside(params, type);
    if (name == "dense") continue;
    params.momentum = 0.9;
    params.clipNorm = 5;
    params.residualDecay = 0.75;
    checkUnscaledInside(params, sparsecollFloat32);
  }
}

TEST_CASE("scales given at create are those of the first steps") {
  sparsecollParams_t params = preset("topka", 0.05);
  params.inputScale = 0.25;
  params.outputScale = 8;
  Group created(kRanks, kLength, sparsecollFloat32, params);
  Group set(kRanks, kLength, sparsecollFloat32, preset("topka", 0.05));
  REQUIRE(setScales(set, 0.25, 8) == all(kRanks, sparsecollSuccess));
  for (int step = 0; step < 2; ++step) {
    for (Group* const group : {&created, &set}) {
      group->fillRandom(3);
      REQUIRE(group->step() == all(kRanks, sparsecollSuccess));
    }
    CHECK(created.outs == set.outs);
  }
  REQUIRE(setScales(created, 1, 1) == all(kRanks, sparsecollSuccess));
  REQUIRE(created.step() == all(kRanks, sparsecollSuccess));
  REQUIRE(set.step() == all(kRanks, sparsecollSuccess));
  CHECK_FALSE(created.outs == set.outs);
}

TEST_CASE("a sparse sum has the output scale of its step") {
  Group group(kRanks, kLength, sparsecollFloat32, preset("topka", 0.05));
  const auto sums = [&](double scale) {
    std::vector<double> of(kRanks);
    REQUIRE(setScales(group, 1, scale) == all(kRanks, sparsecollSuccess));
    REQUIRE(group.each([&](int rank, sparsecollReducer_t reducer) {
      const auto r = static_cast<size_t>(rank);
      SparseVector out(sparsecollFloat32, kLength, kLength);
      const sparsecollResult_t result =
          sparsecollReducerRunSparse(reducer, group.gradients[r].data(), out.view(), nullptr);
      for (size_t e = 0; e < out.count(); ++e) of[r] += std::abs(out.value(e));
      return result;
    }) == all(kRanks, sparsecollSuccess));
    REQUIRE(group.each([](int, sparsecollReducer_t reducer) { return sparsecollReducerReset(reducer, nullptr); }) ==
            all(kRanks, sparsecollSuccess));
    return of;
  };
  group.fillRandom(4);
  std::vector<double> once = sums(1), scaled = sums(512);
  REQUIRE(once[0] > 0);
  for (double& sum : once) sum *= 512;
  CHECK(scaled == once);
}

TEST_CASE("a sum that a loss scaler has divided in place is given back in unscaled units") {
  for (const char* const name : {"topka", "micro", "cltk"})
    for (const sparsecollRedOp_t op : {sparsecollSum, sparsecollAvg})
      for (const bool divided : {false, true})
        for (const bool changed : {false, true}) {
          CAPTURE(name, op, divided, changed);
          sparsecollParams_t params = preset(name, 0.1);
          params.op = op;
          Group group(kRanks, kLength, sparsecollFloat32, params);
          REQUIRE(setScales(group, 1.0 / 16, 16) == all(kRanks, sparsecollSuccess));
          group.fillIntegers(30);
          multiply(group.gradients, 16);
          REQUIRE(group.step() == all(kRanks, sparsecollSuccess));
          REQUIRE(setScales(group, 1.0 / 1024, 1024) == all(kRanks, sparsecollSuccess));
          group.fillIntegers(31);
          std::vector<double> before = total(group);
          for (const Elements& gradient : group.gradients)
            for (size_t i = 0; i < kLength; ++i) before[i] += gradient[i];
          multiply(group.gradients, 1024);
          REQUIRE(group.step() == all(kRanks, sparsecollSuccess));
          CHECK_FALSE(total(group) == before);
          if (divided) multiply(group.outs, 1.0 / 1024);
          if (changed) REQUIRE(setScales(group, 2, 0.5) == all(kRanks, sparsecollSuccess));
          REQUIRE(giveBack(group, divided ? 1.0 / 1024 : 1) == all(kRanks, sparsecollSuccess));
          const std::vector<double> after = total(group);
          double worst = 0;  // thirds of integers round with Sum
          for (size_t i = 0; i < kLength; ++i) worst = std::max(worst, std::abs(after[i] - before[i]));
          CHECK(worst < 1e-5);
        }
}

TEST_CASE("transactional: a step that overflows leaves the residual bit-unchanged whatever the scale") {
  for (const char* const name : {"topka", "micro", "gtopk"})
    for (const double momentum : {0.0, 0.9}) {
      CAPTURE(name, momentum);
      sparsecollParams_t params = preset(name, 0.05);
      params.momentum = momentum;
      sparsecollReducerConfig_t config = SPARSECOLL_INIT(sparsecollReducerConfig_t);
      config.transactional = 1;
      Group group(kRanks, kLength, sparsecollFloat32, params, &config);
      uint64_t seed = 0;
      for (const double lossScale : kLossScales) {
        CAPTURE(lossScale);
        REQUIRE(setScales(group, 1 / lossScale, lossScale) == all(kRanks, sparsecollSuccess));
        group.fillRandom(++seed, lossScale);
        REQUIRE(group.step() == all(kRanks, sparsecollSuccess));
        std::vector<Elements> before;
        for (int rank = 0; rank < kRanks; ++rank) before.push_back(group.residual(rank));
        group.gradients[1].set(7, HUGE_VAL);
        REQUIRE(setScales(group, 0.5 / lossScale, 2 * lossScale) == all(kRanks, sparsecollSuccess));
        REQUIRE(group.step() == all(kRanks, sparsecollSuccess));
        CHECK(std::isnan(group.outs[0][7]));
        REQUIRE(giveBack(group, 0.5 / lossScale) == all(kRanks, sparsecollSuccess));
        for (int rank = 0; rank < kRanks; ++rank) CHECK(group.residual(rank) == before[static_cast<size_t>(rank)]);
      }
    }
}

TEST_CASE("ranks with different scales get Mismatch, and agree again afterwards") {
  struct Row {
    double in, out;
  };
  for (const char* const name : {"topka", "micro", "gtopk", "dense"})
    for (const Row row : {Row{0.5, 1}, Row{1, 2}}) {
      CAPTURE(name, row.in, row.out);
      sparsecollReducerConfig_t config = SPARSECOLL_INIT(sparsecollReducerConfig_t);
      config.transactional = std::string(name) == "dense" ? 0 : 1;
      Group group(kRanks, kLength, sparsecollFloat32, preset(name, std::string(name) == "dense" ? 0 : 0.01), &config);
      group.fillRandom(5);
      REQUIRE(group.step() == all(kRanks, sparsecollSuccess));
      std::vector<Elements> before;
      for (int rank = 0; rank < kRanks; ++rank) before.push_back(group.residual(rank));
      REQUIRE(sparsecollReducerSetScales(group.reducer(kRanks - 1), row.in, row.out) == sparsecollSuccess);
      CHECK(group.step() == all(kRanks, sparsecollMismatch));
      for (int rank = 0; rank < kRanks; ++rank) CHECK(group.residual(rank) == before[static_cast<size_t>(rank)]);
      REQUIRE(setScales(group, row.in, row.out) == all(kRanks, sparsecollSuccess));
      CHECK(group.step() == all(kRanks, sparsecollSuccess));
      CHECK(group.outsEqual());
    }
}

TEST_CASE("scales and factors that nothing can be undone with are refused") {
  Group group(2, kLength, sparsecollFloat32, preset("topka", 0.01));
  group.fillRandom(6);
  REQUIRE(group.step() == all(2, sparsecollSuccess));
  const Elements before = group.residual(0);
  for (const double bad : {0.0, -0.0, double{HUGE_VAL}, -double{HUGE_VAL}, kNaN}) {
    CAPTURE(bad);
    CHECK(setScales(group, bad, 1) == all(2, sparsecollInvalidArgument));
    CHECK(setScales(group, 1, bad) == all(2, sparsecollInvalidArgument));
    CHECK(giveBack(group, bad) == all(2, sparsecollInvalidArgument));
  }
  CHECK(group.residual(0) == before);
  CHECK(setScales(group, -1, -2) == all(2, sparsecollSuccess));
  CHECK(group.step() == all(2, sparsecollSuccess));
}
