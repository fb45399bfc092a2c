// SparDL and gTop-k against their pseudo-code, entry by entry, over steps with error feedback.
#include "tests/support/catch.h"

#include "tests/oracle/blocks_reference.h"
#include "tests/support/group.h"

using namespace sparsecoll::test;

namespace {

Vectors pendingOf(const Group& group) {
  Vectors acc;
  for (int rank = 0; rank < group.count(); ++rank) {
    const Elements residual = group.residual(rank);
    const Elements& gradient = group.gradients[static_cast<size_t>(rank)];
    Vector sum(gradient.size());
    for (size_t i = 0; i < sum.size(); ++i) sum[i] = gradient[i] + residual[i];
    acc.push_back(sum);
  }
  return acc;
}

// Entries of out and of the residuals that differ from the reference.
uint64_t differences(const Group& group, const StepResult& expected) {
  uint64_t count = 0;
  for (int rank = 0; rank < group.count(); ++rank) {
    const Elements residual = group.residual(rank);
    for (size_t i = 0; i < residual.size(); ++i) {
      count += residual[i] != expected.residuals[static_cast<size_t>(rank)][i] ? 1 : 0;
      count += group.outs[static_cast<size_t>(rank)][i] != expected.sum[i] ? 1 : 0;
    }
  }
  return count;
}

struct Shape {
  uint64_t n;
  double density;
};
constexpr Shape kShapes[] = {{1, 1}, {5, 0.5}, {64, 0.1}, {997, 0.05}, {4000, 0.02}, {300, 1}};

}  // namespace

TEST_CASE("SparDL follows its pseudo-code for every number of ranks and teams") {
  constexpr int kMostRanks = 16;
  for (int ranks = 1; ranks <= kMostRanks; ++ranks)
    for (int teams = 1; teams <= ranks; ++teams)
      for (const bool recursive : {true, false})
        for (const bool faithful : {false, true}) {
          if (ranks % teams != 0 || (recursive && (teams & (teams - 1)) != 0)) continue;
          if (faithful && recursive) continue;  // only the adaptive share has a published rule of its own
          for (const Shape& shape : kShapes) {
            CAPTURE(ranks, teams, recursive, faithful, shape.n, shape.density);
            sparsecollParams_t params = preset("spardl", shape.density);
            params.teams = teams;
            params.teamGather = recursive ? sparsecollTeamGatherRecursive : sparsecollTeamGatherBruck;
            params.faithful = faithful ? 1 : 0;
            Group group(ranks, shape.n, sparsecollFloat32, params);
            REQUIRE(group.created() == all(ranks, sparsecollSuccess));
            CHECK(group.info().teams == teams);
            SparDLReference reference{
                shape.n, static_cast<uint64_t>(ranks), static_cast<uint64_t>(teams), shape.density, recursive,
                faithful};
            uint64_t wrong = 0;
            for (uint64_t step = 0; step < 6; ++step) {
              // Whole numbers whose magnitudes rarely tie; halved up to three times in R-SAG they stay exact.
              group.fillIntegers(step + shape.n, 1 << 16);
              const StepResult expected = reference.step(pendingOf(group));
              REQUIRE(group.step() == all(ranks, sparsecollSuccess));
              wrong += differences(group, expected);
            }
            CHECK(wrong == 0);
          }
        }
}

TEST_CASE("SparDL keeps own entries that lie far behind all that arrives") {
  constexpr uint64_t kLength = 40000, kFar = 18000;
  constexpr double kDensity = 0.002;
  Group group(2, kLength, sparsecollFloat32, preset("spardl", kDensity));
  REQUIRE(group.created() == all(2, sparsecollSuccess));
  SparDLReference reference{kLength, 2, 1, kDensity, true, false};
  uint64_t wrong = 0;
  for (uint64_t step = 0; step < 4; ++step) {
    for (uint64_t rank = 0; rank < 2; ++rank) {
      Elements& gradient = group.gradients[rank];
      for (uint64_t i = 0; i < kLength; ++i) {
        const uint64_t block = i / (kLength / 2), at = i % (kLength / 2);
        const uint64_t from = block == rank ? kFar : 0;  // whose block it is has all of its own at its end
        const bool any = at >= from && at < from + 100;
        gradient.set(i, any ? static_cast<double>(1 + (at * 37 + step * 11 + rank * 50 + block) % 1009) : 0);
      }
    }
    const StepResult expected = reference.step(pendingOf(group));
    REQUIRE(group.step() == all(2, sparsecollSuccess));
    wrong += differences(group, expected);
  }
  CHECK(wrong == 0);
}

TEST_CASE("gTop-k follows its pseudo-code, and faithful counts what it forgets") {
  for (int ranks = 1; ranks <= 9; ++ranks)
    for (const bool faithful : {false, true})
      for (const Shape& shape : kShapes) {
        CAPTURE(ranks, faithful, shape.n, shape.density);
        sparsecollParams_t params = preset("gtopk", shape.density);
        params.faithful = faithful ? 1 : 0;
        Group group(ranks, shape.n, sparsecollFloat32, params);
        REQUIRE(group.created() == all(ranks, sparsecollSuccess));
        uint64_t wrong = 0;
        uint64_t lost = 0;
        for (uint64_t step = 0; step < 6; ++step) {
          group.fillIntegers(step + shape.n, 1 << 12);
          const StepResult expected = gTopKReference(pendingOf(group), group.info().k, faithful, lost);
          REQUIRE(group.step() == all(ranks, sparsecollSuccess));
          wrong += differences(group, expected);
        }
        CHECK(wrong == 0);
        uint64_t counted = 0;
        for (int rank = 0; rank < ranks; ++rank) counted += group.stats(rank).entriesLost;
        CHECK(counted == (faithful ? lost : 0));
      }
}

TEST_CASE("gTop-k's two cases by hand") {
  const auto run = [](const std::vector<std::vector<double>>& input, int faithful) {
    sparsecollParams_t params = preset("gtopk", 0);
    params.k = 1;
    params.faithful = faithful;
    auto group = std::make_unique<Group>(4, input[0].size(), sparsecollFloat32, params);
    for (size_t r = 0; r < 4; ++r)
      for (size_t i = 0; i < input[r].size(); ++i) group->gradients[r].set(i, input[r][i]);
    REQUIRE(group->step() == all(4, sparsecollSuccess));
    return group;
  };
  // {0:5} + {0:-4} = {0:1}; {1:3} + {1:3} = {1:6}: ranks 0 and 1 take their values back.
  const auto sums = run({{5, 0}, {-4, 0}, {0, 3}, {0, 3}}, 0);
  CHECK(sums->outs[0][0] == 0);
  CHECK(sums->outs[0][1] == 6);
  const double back[] = {5, -4, 0, 0};
  for (int r = 0; r < 4; ++r) CHECK(sums->residual(r)[0] == back[r]);
  // {0:5} stays of ranks 0 and 1, {1:4} of 2 and 3, and {0:5} wins. Rank 3's {0:1} was dropped by rank 2 although index
  // 0 is in the sum.
  for (const int faithful : {0, 1}) {
    const auto leak = run({{5, 0}, {0, 4.5}, {0, 4}, {1, 0}}, faithful);
    CHECK(leak->outs[3][0] == 5);
    CHECK(leak->residual(1)[1] == 4.5);
    CHECK(leak->residual(2)[1] == 4);
    CHECK(leak->residual(3)[0] == 0);
    CHECK(leak->residual(2)[0] == (faithful != 0 ? 0 : 1));
    CHECK(leak->stats(2).entriesLost == (faithful != 0 ? 1u : 0u));
  }
}

TEST_CASE("teams that do not fit are refused on every rank") {
  struct Row {
    int ranks, teams, gather;
  };
  for (const Row& row : {Row{6, 4, 0}, Row{6, 7, 0}, Row{6, 3, 1}, Row{6, -1, 0}, Row{4, 8, 2}, Row{4, 2, 3}}) {
    CAPTURE(row.ranks, row.teams, row.gather);
    sparsecollParams_t params = preset("spardl", 0.1);
    params.teams = row.teams;
    params.teamGather = row.gather;
    CHECK(Group(row.ranks, 1000, sparsecollFloat32, params).created() == all(row.ranks, sparsecollInvalidArgument));
  }
}

TEST_CASE("SparDL takes no selector that knows no blocks, and no densities of single tensors") {
  sparsecollParams_t params = preset("micro", 0.1);
  params.collective = sparsecollCollSparDL;
  CHECK(Group(2, 1000, sparsecollFloat32, params).created() == all(2, sparsecollUnsupported));
  sparsecollSegment_t segments[] = {{400, 0.5, 0, 0}, {600, 0, 0, 0}};
  auto config = SPARSECOLL_INIT(sparsecollReducerConfig_t);
  config.segments = segments;
  config.segmentCount = 2;
  CHECK(Group(2, 1000, sparsecollFloat32, preset("spardl", 0.1), &config).created() == all(2, sparsecollUnsupported));
}

// A team's share is state that follows the density. Ranks that fell apart over one must not go on with shares of their
// own.
TEST_CASE("teams agree on their shares again after a step that failed") {
  sparsecollParams_t params = preset("spardl", 0.1);
  params.teams = 4;
  params.teamGather = sparsecollTeamGatherBruck;
  auto config = SPARSECOLL_INIT(sparsecollReducerConfig_t);
  config.maxDensity = 0.2;
  Group group(4, 20000, sparsecollFloat32, params, &config);
  const auto step = [&](uint64_t seed) {
    group.fillIntegers(seed, 1000);
    return group.step();
  };
  for (uint64_t s = 0; s < 6; ++s) REQUIRE(step(s) == all(4, sparsecollSuccess));
  REQUIRE(sparsecollReducerSetDensity(group.reducer(3), 0.2) == sparsecollSuccess);
  CHECK(step(6) == all(4, sparsecollMismatch));
  REQUIRE(sparsecollReducerSetDensity(group.reducer(3), 0.1) == sparsecollSuccess);
  for (uint64_t s = 7; s < 12; ++s) {
    CHECK(step(s) == all(4, sparsecollSuccess));
    CHECK(group.outsEqual());
  }
}
