// SparDL's schedule: the specification's table, and what follows from it.
#include "collectives/spardl.h"
#include "collectives/team_share.h"

#include "tests/support/catch.h"

#include <set>

namespace sparsecoll {
namespace {

TEST_CASE("F6: gaps and sizes of the bags") {
  const std::vector<std::pair<uint32_t, std::vector<std::pair<uint32_t, uint32_t>>>> rows = {
      {1, {}},
      {2, {{1, 1}}},
      {3, {{2, 1}, {1, 1}}},
      {4, {{2, 2}, {1, 1}}},
      {5, {{4, 1}, {2, 2}, {1, 1}}},
      {6, {{4, 2}, {2, 2}, {1, 1}}},
      {7, {{4, 3}, {2, 2}, {1, 1}}},
      {8, {{4, 4}, {2, 2}, {1, 1}}},
      {9, {{8, 1}, {4, 4}, {2, 2}, {1, 1}}},
      {10, {{8, 2}, {4, 4}, {2, 2}, {1, 1}}},
      {12, {{8, 4}, {4, 4}, {2, 2}, {1, 1}}},
      {14, {{8, 6}, {4, 4}, {2, 2}, {1, 1}}},
      {16, {{8, 8}, {4, 4}, {2, 2}, {1, 1}}},
      {17, {{16, 1}, {8, 8}, {4, 4}, {2, 2}, {1, 1}}}};
  for (const auto& [positions, bags] : rows) {
    CAPTURE(positions);
    const std::vector<Bag> got = bagsOf(positions);
    REQUIRE(got.size() == bags.size());
    for (size_t i = 0; i < bags.size(); ++i) {
      CHECK(got[i].gap == bags[i].first);
      CHECK(got[i].size == bags[i].second);
    }
  }
}

TEST_CASE("every foreign block is sent once, and after everything for it has come") {
  for (uint32_t q = 1; q <= 70; ++q) {
    CAPTURE(q);
    uint32_t sent = 0;
    std::set<uint32_t> live;  // distances of blocks that position 0 still holds; all positions are alike
    for (uint32_t b = 0; b < q; ++b) live.insert(b);
    for (const Bag& bag : bagsOf(q)) {
      sent += bag.size;
      for (uint32_t j = 0; j < bag.size; ++j) CHECK(live.erase(bag.gap + j) == 1);
      for (uint32_t j = 0; j < bag.size; ++j) CHECK(live.count(j) == 1);  // what arrives is added to live blocks
    }
    CHECK(sent == q - 1);
    CHECK(live == std::set<uint32_t>{0});
  }
}

TEST_CASE("F6: the share that a team gives, step by step") {
  TeamShare share = firstShare(1000, 4);
  CHECK(share.entries == 250);
  CHECK(share.step == 7);
  const auto move = [&](double merged, double wanted, double teams) {
    share = nextShare(share, merged, wanted, teams, true);
  };
  move(900, 1000, 4);
  CHECK(share.entries == 257);
  CHECK(share.confirmed == 1);
  move(910, 1000, 4);
  CHECK(share.entries == 271);
  CHECK(share.step == 14);
  CHECK(share.confirmed == 0);
  move(1100, 1000, 4);
  CHECK(share.entries == 264);
  CHECK(share.step == -7);

  share = firstShare(1000, 4);
  move(1000, 1000, 4);  // what was wanted is not too much
  CHECK(share.entries == 257);
  CHECK(share.confirmed == 1);

  share = firstShare(300, 2);
  CHECK(share.entries == 150);
  CHECK(share.step == 1);
  move(400, 300, 2);
  CHECK(share.entries == 150);
  CHECK(share.step == -1);
}

TEST_CASE("a share's step freezes at 0 only where that is asked for") {
  for (const bool freezes : {true, false}) {
    TeamShare share = firstShare(50, 2);  // (50 - 25) / 100 is 0
    CHECK(share.step == 0);
    for (int i = 0; i < 10; ++i) share = nextShare(share, 40, 50, 2, freezes);
    CHECK((share.entries == 25) == freezes);
    CHECK(share.entries <= 50);
  }
}

TEST_CASE("a share that stays at an end finds back as soon as it has to, however long that was") {
  for (const bool freezes : {true, false})
    for (const bool above : {true, false}) {
      CAPTURE(freezes, above);
      const double wanted = 40, teams = 4, most = above ? 41 : 39;
      TeamShare share = firstShare(5000, 4);
      for (int i = 0; i < 5000; ++i) share = nextShare(share, most, wanted, teams, freezes);
      CHECK(std::abs(share.step) <= wanted);
      CHECK(share.entries == (above ? 10 : 40));
      for (int i = 0; i < 10; ++i)  // too much and too little in turns: each step is half of the one before
        share = nextShare(share, i % 2 == 0 ? wanted + 1 : wanted - 1, wanted, teams, freezes);
      CHECK(std::abs(share.step) <= 1);
    }
}

TEST_CASE("the specification's table of costs") {
  struct Row {
    uint32_t ranks, teams;
    sparsecollTeamGather_t gather;
    double rounds, words;  // in units of k
  };
  for (const Row& row :
       {Row{4, 1, sparsecollTeamGatherRecursive, 4, 3.00}, Row{8, 1, sparsecollTeamGatherRecursive, 6, 3.5},
        Row{14, 1, sparsecollTeamGatherRecursive, 8, 3.7142857}, Row{4, 2, sparsecollTeamGatherRecursive, 3, 3.00},
        Row{8, 2, sparsecollTeamGatherRecursive, 5, 3.50}, Row{16, 4, sparsecollTeamGatherRecursive, 6, 4.0},
        Row{14, 2, sparsecollTeamGatherBruck, 7, 3.7142857},
        Row{16, 4, sparsecollTeamGatherBruck, 6, 2.0 * (16 + 32 - 12) / 16}}) {
    CAPTURE(row.ranks, row.teams);
    const TeamCost cost = teamCost(row.ranks, row.teams, row.gather, 1);
    CHECK(cost.rounds == row.rounds);
    CHECK(cost.words == Approx(row.words));
  }
}

TEST_CASE("the number of teams is a divisor of the ranks that costs least") {
  for (int ranks = 1; ranks <= 64; ++ranks)
    for (const auto gather : {sparsecollTeamGatherRecursive, sparsecollTeamGatherBruck})
      for (const uint64_t k : {uint64_t{10}, uint64_t{100000}}) {
        CAPTURE(ranks, gather, k);
        auto teams = resolveTeams(ranks, 0, gather, k);
        REQUIRE(teams.ok());
        CHECK(ranks % *teams == 0);
        CHECK(resolveTeams(ranks, *teams, gather, k).ok());
      }
  for (const int32_t teams : {4, 12})
    CHECK(resolveTeams(6, teams, sparsecollTeamGatherBruck, 10).takeStatusOrOk().result() == sparsecollInvalidArgument);
  CHECK(*resolveTeams(16, 0, sparsecollTeamGatherRecursive, 10) == 16);       // latency decides
  CHECK(*resolveTeams(16, 0, sparsecollTeamGatherRecursive, 10000000) == 2);  // as many words, a round less
}

}  // namespace
}  // namespace sparsecoll
