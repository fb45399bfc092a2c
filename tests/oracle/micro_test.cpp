// MiCRO as published (specification vectors V4, V5, V6) and with the controller that is the default here.
#include "tests/support/catch.h"

#include <set>

#include "tests/support/group.h"

using namespace sparsecoll::test;

namespace {

sparsecollParams_t faithful(double density, uint64_t k = 0) {
  sparsecollParams_t params = preset("micro", density);
  params.k = k;
  params.faithful = 1;
  return params;
}

}  // namespace

TEST_CASE("V4: partitions of 10 entries on 4 ranks, and who owns which") {
  // Zeros select nothing, so every rank sends the forced index: the first of its partition at step 0.
  const std::set<uint64_t> starts = {0, 3, 6, 8};
  Group zeros(4, 10, sparsecollFloat32, faithful(0, 4));
  std::set<uint64_t> seen;
  const Results results = zeros.each([&](int rank, sparsecollReducer_t reducer) {
    SparseVector out(sparsecollFloat32, 10, 10);
    const sparsecollResult_t result =
        sparsecollReducerRunSparse(reducer, zeros.gradients[static_cast<size_t>(rank)].data(), out.view(), nullptr);
    if (rank == 0)
      for (size_t e = 0; e < out.count(); ++e) seen.insert(out.index(e));
    return result;
  });
  REQUIRE(results == all(4, sparsecollSuccess));
  CHECK(seen == starts);

  // Everything passes, so a rank sends its whole partition: (t + r) mod 4.
  const uint64_t sizes[] = {3, 3, 2, 2};
  Group ones(4, 10, sparsecollFloat32, faithful(0, 4));
  for (Elements& gradient : ones.gradients) gradient.fill(100);
  for (uint64_t t = 0; t < 9; ++t) {
    REQUIRE(ones.step() == all(4, sparsecollSuccess));
    for (int r = 0; r < 4; ++r) CHECK(ones.stats(r).lastSelected == sizes[(t + static_cast<uint64_t>(r)) % 4]);
    CHECK(ones.stats(0).lastUnion == 10);
  }
}

TEST_CASE("V5: the first threshold is 1 / (2 sqrt(k))") {
  struct Row {
    uint64_t n, k;
    double threshold;
  };
  for (const Row& row : {Row{11173962, 11173, 4.73026e-3}, Row{11220132, 11220, 4.72034e-3},
                         Row{28949319, 28949, 2.93869e-3}, Row{31832577, 31832, 2.80245e-3}}) {
    CAPTURE(row.n);
    {
      Group shape(1, row.n, sparsecollBfloat16, preset("topka", 0.001));  // k of the density, cheap in memory
      REQUIRE(shape.created() == all(1, sparsecollSuccess));
      CHECK(shape.info().k == row.k);
    }
    // k is all that the threshold depends on.
    Group group(2, 2 * row.k, sparsecollFloat32, faithful(0, row.k));
    REQUIRE(group.step() == all(2, sparsecollSuccess));
    const double first = group.stats(0).lastThreshold;
    CHECK(first == Approx(row.threshold).epsilon(2e-6));
    CHECK(first == Approx(1 / (2 * std::sqrt(static_cast<double>(row.k)))).epsilon(1e-12));
  }
}

TEST_CASE("V6: the threshold moves by the coded factors") {
  struct Row {
    uint64_t delivered;  // of k = 1000
    double factor;
  };
  for (const Row& row : {Row{1200, 1.005}, Row{1101, 1.005}, Row{1100, 1.00125}, Row{1050, 1.00125}, Row{1000, 1.00125},
                         Row{950, 1.00125}, Row{910, 1.00125}, Row{909, 0.995}, Row{500, 0.995}, Row{2, 0.995}}) {
    CAPTURE(row.delivered);
    Group group(2, 20000, sparsecollFloat64, faithful(0, 1000));
    for (int rank = 0; rank < 2; ++rank)  // half of them in each partition
      for (uint64_t i = 0; i < row.delivered / 2 + (rank == 0 ? row.delivered % 2 : 0); ++i)
        group.gradients[static_cast<size_t>(rank)].set(static_cast<uint64_t>(rank) * 10000 + i, 1);
    REQUIRE(group.step() == all(2, sparsecollSuccess));
    const double first = 1 / (2 * std::sqrt(1000.0));
    CHECK(group.stats(0).lastUnion == row.delivered);
    CHECK(group.stats(0).lastThreshold == Approx(first).epsilon(1e-14));
    REQUIRE(group.step() == all(2, sparsecollSuccess));
    CHECK(group.stats(0).lastThreshold == Approx(first * row.factor).epsilon(1e-14));
    CHECK(group.stats(1).lastThreshold == group.stats(0).lastThreshold);
  }
}

TEST_CASE("faithful: an empty partition's rank sends nothing, an empty selection one forced entry") {
  Group group(5, 3, sparsecollFloat32, faithful(0, 2));
  REQUIRE(group.created() == all(5, sparsecollSuccess));
  for (uint64_t t = 0; t < 10; ++t) {
    REQUIRE(group.step() == all(5, sparsecollSuccess));
    for (int r = 0; r < 5; ++r) CHECK(group.stats(r).lastSelected == ((t + static_cast<uint64_t>(r)) % 5 < 3 ? 1 : 0));
  }
}

namespace {

struct TargetRow {
  int ranks;
  uint64_t n;
  double density;
};
constexpr TargetRow kTargets[] = {{1, 20000, 0.01},  {2, 20000, 0.01}, {4, 50000, 0.01},
                                  {4, 50000, 0.001}, {8, 40000, 0.05}, {3, 30000, 0.1}};

struct Steered {
  double first;  // union of the first step over k
  double late;   // mean union over k of steps 60 to 120
  bool equal;    // thresholds on all ranks
};

Steered steer(const TargetRow& row, uint32_t flags) {
  sparsecollParams_t params = preset("micro", row.density);
  params.flags = flags;
  Group group(row.ranks, row.n, sparsecollFloat32, params);
  const auto k = static_cast<double>(group.info().k);
  Steered steered{0, 0, true};
  for (uint64_t step = 0; step < 120; ++step) {
    for (size_t r = 0; r < group.gradients.size(); ++r) {
      Random random(step * 100 + r);
      for (uint64_t i = 0; i < row.n; ++i) group.gradients[r].set(i, 0.01 * random.normal());
    }
    REQUIRE(group.step() == all(row.ranks, sparsecollSuccess));
    const double reached = static_cast<double>(group.stats(0).lastUnion) / k;
    if (step == 0) steered.first = reached;
    if (step >= 60) steered.late += reached / 60;
    for (int r = 1; r < row.ranks; ++r)
      steered.equal = steered.equal && group.stats(r).lastThreshold == group.stats(0).lastThreshold;
  }
  return steered;
}

}  // namespace

TEST_CASE("the default controller reaches its target where what it selects from is stationary") {
  for (const TargetRow& row : kTargets) {
    CAPTURE(row.ranks, row.n, row.density);
    const Steered steered = steer(row, SPARSECOLL_NO_RESIDUAL);
    CHECK(steered.equal);
    CHECK(steered.first == Approx(1).epsilon(0.001));
    CHECK(steered.late == Approx(1).epsilon(0.02));
  }
}

// Error feedback closes a second loop: what a high threshold holds back piles up below it.
TEST_CASE("the default controller reaches its target with error feedback") {
  for (const TargetRow& row : kTargets) {
    CAPTURE(row.ranks, row.n, row.density);
    const Steered steered = steer(row, 0);
    CHECK(steered.equal);
    CHECK(steered.late == Approx(1).epsilon(0.02));
  }
}

TEST_CASE("a first threshold can be given") {
  sparsecollParams_t params = preset("micro", 0.1);
  params.threshold = 0.5;
  Group group(2, 1000, sparsecollFloat32, params);
  for (Elements& gradient : group.gradients)
    for (uint64_t i = 0; i < 1000; ++i) gradient.set(i, i % 10 == 0 ? 0.6 : 0.4);
  REQUIRE(group.step() == all(2, sparsecollSuccess));
  CHECK(group.stats(0).lastUnion == 100);
  // Read off between the two, without a step that looks for it.
  CHECK(group.stats(0).lastThreshold > 0.4);
  CHECK(group.stats(0).lastThreshold <= 0.6);
}

TEST_CASE("thresholds stay equal on all ranks after a step that failed") {
  // The ranks look for their first threshold in the step that fails.
  for (const int failing : {0, 3}) {
    CAPTURE(failing);
    sparsecollReducerConfig_t config = SPARSECOLL_INIT(sparsecollReducerConfig_t);
    config.maxDensity = 0.1;
    Group group(4, 4000, sparsecollFloat32, preset("micro", 0.01), &config);
    for (int step = 0; step < 6; ++step) {
      group.fillRandom(80 + static_cast<uint64_t>(step));
      for (size_t r = 0; r < 4; ++r)  // ranks with gradients of different sizes
        for (uint64_t i = 0; i < 4000; ++i)
          group.gradients[r].set(i, group.gradients[r][i] * static_cast<double>(r + 1));
      if (step == failing) {
        REQUIRE(sparsecollReducerSetDensity(group.reducer(2), 0.05) == sparsecollSuccess);
        CHECK(group.step() == all(4, sparsecollMismatch));
        REQUIRE(sparsecollReducerSetDensity(group.reducer(2), 0.01) == sparsecollSuccess);
        continue;
      }
      REQUIRE(group.step() == all(4, sparsecollSuccess));
      std::set<double> thresholds;
      for (int r = 0; r < 4; ++r) thresholds.insert(group.stats(r).lastThreshold);
      CHECK(thresholds.size() == 1);
    }
  }
}
