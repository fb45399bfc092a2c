// What sparsecoll-perf makes of the steps that it kept, from steps whose numbers are known.
#include "bench/perf/steps.h"

#include "tests/support/catch.h"

namespace bench {
namespace {

Steps selecting(const std::vector<uint64_t>& nanoseconds) {
  Steps steps;
  for (const uint64_t ns : nanoseconds) {
    steps.emplace_back();
    steps.back().stats.lastSelectNs = ns;
  }
  return steps;
}

Timing timingOfRanks(const std::vector<Steps>& ranks) {
  const Shape shape{100, &elementType("f32"), static_cast<int>(ranks.size()), kHost};
  return timingOf(ranks, SPARSECOLL_INIT(sparsecollReducerInfo_t), shape);
}

TEST_CASE("the imbalance of selection is the slowest rank's over the mean one, the median of the steps") {
  // By step: 3 / 2, 1, and 40 / 25.
  CHECK(timingOfRanks({selecting({1000, 500, 10}), selecting({3000, 500, 40})}).selectImbalance == 1.5);
  CHECK(timingOfRanks({selecting({700, 800})}).selectImbalance == 1);
  CHECK(timingOfRanks({selecting({0}), selecting({0})}).selectImbalance == 1);  // dense selects nothing
}

}  // namespace
}  // namespace bench
