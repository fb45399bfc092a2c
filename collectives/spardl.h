// SparDL's schedule: who sends which blocks to whom (Zhao et al., ICDE 2024, arXiv:2304.00737).
#pragma once

#include <cstdint>
#include <vector>

#include "core/partition.h"
#include "core/status.h"
#include "sparsecoll/sparsecoll.h"

namespace sparsecoll {

// One bag of the Spar-Reduce-Scatter: in this round position r sends blocks r + gap ... r + gap + size - 1 (modulo the
// number of positions) to position r + gap, and receives blocks r ... r + size - 1 from position r - gap.
struct Bag {
  uint32_t gap;
  uint32_t size;
};

// ceil(log2 positions) bags, from the farthest and largest distance to the nearest; together positions - 1 blocks.
std::vector<Bag> bagsOf(uint32_t positions);

// Rounds and words (4 bytes; an entry is two) that a rank sends in a step, for the choice of the number of teams. Where
// the words are a range (B-SAG) the upper end.
struct TeamCost {
  double rounds;
  double words;
};
TeamCost teamCost(uint32_t ranks, uint32_t teams, sparsecollTeamGather_t gather, double k);

// Errors: InvalidArgument for a number that does not divide the ranks, or that the gather cannot take.
// teams 0: the number with the least alpha * rounds + beta * words, the lowest of equals.
Result<int32_t> resolveTeams(int ranks, int32_t teams, sparsecollTeamGather_t gather, uint64_t k);

}  // namespace sparsecoll
