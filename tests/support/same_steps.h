// Steps of a group of ranks with the bits of another one's that is known to be right.
#pragma once

#include <functional>

#include "tests/support/catch.h"
#include "tests/support/group.h"

namespace sparsecoll::test {

// Both groups have been made, and go through steps with the same gradients: every rank of `tested` has the sum and the
// residual that it has in `expected`. change: may alter the gradients of a step before it is run.
template <class Expected, class Tested>
void checkSameSteps(Expected& expected, Tested& tested, int steps,
                    const std::function<void(std::vector<Elements>& gradients, int step)>& change = nullptr) {
  const int ranks = tested.count();
  const Results good = all(ranks, sparsecollSuccess);
  const auto require = [&](const Results& results) {
    for (int rank = 0; rank < ranks; ++rank)
      if (results[static_cast<size_t>(rank)] != sparsecollSuccess) UNSCOPED_INFO(failureOf(tested.ranks()[rank]).text);
    REQUIRE(results == good);
  };
  REQUIRE(expected.created() == good);
  require(tested.created());
  for (int step = 0; step < steps; ++step) {
    CAPTURE(step);
    expected.fillRandom(static_cast<uint64_t>(step));
    if (change) change(expected.gradients, step);
    tested.gradients = expected.gradients;
    REQUIRE(expected.step() == good);
    require(tested.step());
    require(tested.wait());
    for (int rank = 0; rank < ranks; ++rank) {
      CAPTURE(rank);
      const auto r = static_cast<size_t>(rank);
      REQUIRE(tested.outs[r] == expected.outs[r]);
      REQUIRE(tested.residual(rank) == expected.residual(rank));
    }
  }
}

}  // namespace sparsecoll::test
