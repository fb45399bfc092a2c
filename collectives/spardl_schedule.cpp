#include <cmath>

#include "collectives/spardl.h"

namespace sparsecoll {

namespace {

// A round over commodity Ethernet, and a word at 10 Gbit/s.
constexpr double kAlpha = 20e-6;
constexpr double kBeta = 3.2e-9;

bool isPowerOfTwo(uint32_t x) { return (x & (x - 1)) == 0; }

bool mayHaveTeams(uint32_t ranks, uint32_t teams, sparsecollTeamGather_t gather) {
  return ranks % teams == 0 && (gather != sparsecollTeamGatherRecursive || isPowerOfTwo(teams));
}

}  // namespace

std::vector<Bag> bagsOf(uint32_t positions) {
  const uint32_t rounds = ceilLog2(positions);
  std::vector<Bag> bags;
  for (uint32_t i = 0; i < rounds; ++i) {
    const uint32_t gap = 1u << (rounds - 1 - i);
    bags.push_back({gap, i == 0 ? positions - gap : gap});
  }
  return bags;
}

TeamCost teamCost(uint32_t ranks, uint32_t teams, sparsecollTeamGather_t gather, double k) {
  const double share = k * teams / ranks;  // entries of a block
  const double scatter = 2.0 * 2 * (ranks / teams - 1) * share;
  const double between = gather == sparsecollTeamGatherRecursive ? ceilLog2(teams) : teams - 1.0;
  return {2.0 * ceilLog2(ranks / teams) + ceilLog2(teams), scatter + 2 * between * share};
}

Result<int32_t> resolveTeams(int ranks, int32_t teams, sparsecollTeamGather_t gather, uint64_t k) {
  const auto p = static_cast<uint32_t>(ranks);
  if (teams > 0) {
    if (teams > ranks || ranks % teams != 0)
      return invalid("params.teams is {}, which does not divide {}", teams, ranks);
    if (!mayHaveTeams(p, static_cast<uint32_t>(teams), gather))
      return invalid("params.teams is {}; recursive gathering needs a power of two", teams);
    return teams;
  }
  int32_t best = 1;
  double least = INFINITY;
  for (uint32_t d = 1; d <= p; ++d) {
    if (!mayHaveTeams(p, d, gather)) continue;
    const TeamCost cost = teamCost(p, d, gather, static_cast<double>(k));
    const double seconds = kAlpha * cost.rounds + kBeta * cost.words;
    if (seconds >= least) continue;
    least = seconds;
    best = static_cast<int32_t>(d);
  }
  return best;
}

}  // namespace sparsecoll
