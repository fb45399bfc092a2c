// The conservation law of a step, entry by entry.
#pragma once

#include <vector>

#include "tests/support/catch.h"
#include "tests/support/group.h"

namespace sparsecoll::test {

// A step of small integers, exact in every type: what was there is there, entry by entry.
inline void conservingStep(Group& group, uint64_t seed) {
  group.fillIntegers(seed, 3);
  const uint64_t n = group.outs[0].size();
  std::vector<double> before(n);
  const auto add = [&](std::vector<double>& to, int rank) {
    const Elements residual = group.residual(rank);
    for (uint64_t i = 0; i < n; ++i) to[i] += residual[i];
  };
  for (int rank = 0; rank < group.count(); ++rank) {
    add(before, rank);
    for (uint64_t i = 0; i < n; ++i) before[i] += group.gradients[static_cast<size_t>(rank)][i];
  }
  REQUIRE(group.step() == all(group.count(), sparsecollSuccess));
  REQUIRE(group.outsEqual());
  std::vector<double> after(n);
  for (int rank = 0; rank < group.count(); ++rank) add(after, rank);
  for (uint64_t i = 0; i < n; ++i) after[i] += group.outs[0][i];
  REQUIRE(before == after);
}

}  // namespace sparsecoll::test
