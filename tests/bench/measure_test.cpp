// How steps are shared out among the graphs that are timed.
#include "bench/device/measure.h"

#include <algorithm>
#include <map>

#include "tests/support/catch.h"

using bench::Operation;
using bench::shareOut;

TEST_CASE("Graphs are long enough, of one length, and have every step as often as every other") {
  const auto order = GENERATE(Operation::Order::kInTurn, Operation::Order::kAny);
  const auto steps = GENERATE(as<uint64_t>{}, 1, 2, 3, 7, 12, 96);
  const auto least = GENERATE(as<uint64_t>{}, 1, 2, 5, 14, 100);
  CAPTURE(order == Operation::Order::kAny, steps, least);
  const auto graphs = shareOut(steps, least, order);
  std::map<uint64_t, uint64_t> times;
  for (const std::vector<uint64_t>& graph : graphs) {
    CHECK(graph.size() == graphs.front().size());
    CHECK(graph.size() >= least);
    for (const uint64_t step : graph) ++times[step];
  }
  CHECK(times.size() == steps);
  for (const auto& [step, count] : times) CHECK(count == times[0]);
  CHECK(graphs.front().size() < least + steps * 8);
  if (order == Operation::Order::kAny) CHECK(graphs.size() >= std::min<uint64_t>(steps, 8));
}

TEST_CASE("Steps in turn stay in turn over the graphs") {
  const auto graphs = shareOut(6, 4, Operation::Order::kInTurn);
  uint64_t next = 0;
  for (const std::vector<uint64_t>& graph : graphs)
    for (const uint64_t step : graph) CHECK(step == next++ % 6);
}

TEST_CASE("Steps in any order come in another one, and not in pairs") {
  const auto graphs = shareOut(96, 14, Operation::Order::kAny);
  std::vector<uint64_t> all;
  for (const std::vector<uint64_t>& graph : graphs) all.insert(all.end(), graph.begin(), graph.end());
  CHECK(!std::is_sorted(all.begin(), all.end()));
  uint64_t pairs = 0;  // a gradient with both signs: what one adds the other takes away
  for (size_t i = 1; i < all.size(); ++i) pairs += all[i] / 2 == all[i - 1] / 2 ? 1 : 0;
  CHECK(pairs < 10);
}
