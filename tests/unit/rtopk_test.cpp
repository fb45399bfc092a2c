// rTop-k: which entries are drawn of the r largest, and how often each.
#include "tests/support/catch.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "tests/unit/cut_step.h"
#include "tests/unit/selection_run.h"

namespace sparsecoll {
namespace {

using test::gradientsOf;
using test::SelectionRun;

const PlanFunction kPlan = selectorRow(sparsecollSelectRandomOfTop)->plan;

SelectionRequest requestOf(uint64_t n, uint64_t k, uint64_t candidates, int ranks = 1) {
  SelectionRequest request;
  request.n = n;
  request.k = k;
  request.ranks = ranks;
  request.params.seed = 11;
  request.params.candidates = candidates;
  return request;
}

template <class A>
std::vector<uint32_t> largest(const std::vector<A>& acc, uint64_t count) {
  return test::expectedSelection(acc, {{0, acc.size(), std::min<uint64_t>(count, acc.size())}}).indices;
}

bool within(const std::vector<uint32_t>& list, const std::vector<uint32_t>& of) {
  return std::includes(of.begin(), of.end(), list.begin(), list.end());
}

TEMPLATE_TEST_CASE("k entries of the r largest, in order, with their values", "", float, double) {
  using A = TestType;
  for (const uint64_t n : {1u, 7u, 1000u, 50021u})
    for (const uint64_t k : {uint64_t{1}, n / 7, n / 3, n})
      for (const uint64_t candidates : {uint64_t{0}, k, k + 1, 3 * k + 5, n, ~uint64_t{0}}) {
        if (k == 0 || (candidates != 0 && std::min(candidates, n) < k)) continue;
        CAPTURE(n, k, candidates);
        SelectionRun<A> run(kPlan, requestOf(n, k, candidates), false);
        CHECK(run[0].capacity() == k);
        for (uint64_t step = 0; step < 4; ++step) {
          run.step(gradientsOf<A>(1, n, step));
          const std::vector<A>& acc = run.accumulated[0];
          const auto top = largest(acc, candidates == 0 ? 2 * k : candidates);
          REQUIRE(run.lists[0].size() == k);
          REQUIRE(std::adjacent_find(run.lists[0].begin(), run.lists[0].end(), std::greater_equal<>()) ==
                  run.lists[0].end());
          REQUIRE(within(run.lists[0], top));
          bool same = true;
          for (size_t j = 0; j < k; ++j) same = same && test::sameBits(run.values[0][j], acc[run.lists[0][j]]);
          CHECK(same);
          CHECK(run.control().selected == k);
        }
      }
}

TEST_CASE("r = k is top-k") {
  SelectionRun<float> run(kPlan, requestOf(20011, 300, 300), false);
  for (uint64_t step = 0; step < 5; ++step) {
    run.step(gradientsOf<float>(1, 20011, step));
    CHECK(run.lists[0] == largest(run.accumulated[0], 300));
  }
}

TEST_CASE("ties of the r-th magnitude go to the lowest index") {
  constexpr uint64_t kLength = 4096;
  SelectionRun<float> run(kPlan, requestOf(kLength, 50, 100), false);
  const std::vector<std::vector<float>> equal{std::vector<float>(kLength, -2)};
  run.step(equal);
  REQUIRE(run.lists[0].size() == 50);
  CHECK(run.lists[0].back() < 100);
}

// Of the same vector in every step.
std::map<uint32_t, uint64_t> countDraws(uint64_t n, uint64_t k, uint64_t candidates, uint64_t steps) {
  SelectionRun<float> run(kPlan, requestOf(n, k, candidates), false);
  const auto gradients = gradientsOf<float>(1, n, 1);
  std::map<uint32_t, uint64_t> counts;
  for (const uint32_t index : largest(gradients[0], candidates)) counts[index] = 0;
  for (uint64_t step = 0; step < steps; ++step) {
    std::fill(run.residuals[0].begin(), run.residuals[0].end(), 0.0F);
    run.step(gradients);
    for (const uint32_t index : run.lists[0]) ++counts.at(index);
  }
  return counts;
}

TEST_CASE("each of the r is drawn equally often") {
  constexpr uint64_t kSteps = 4000;
  struct Row {
    uint64_t k, candidates;
  };
  for (const auto& [k, candidates] : {Row{20, 40}, Row{20, 30}, Row{7, 40}, Row{1, 5}, Row{39, 40}}) {
    CAPTURE(k, candidates);
    const double share = static_cast<double>(k) / static_cast<double>(candidates);
    const double deviation = std::sqrt(kSteps * share * (1 - share));
    double squares = 0;
    for (const auto& [index, count] : countDraws(2000, k, candidates, kSteps)) {
      CAPTURE(index);
      const double off = (static_cast<double>(count) - kSteps * share) / deviation;
      CHECK(std::abs(off) < 4.5);
      squares += off * off;
    }
    CHECK(squares < 2 * static_cast<double>(candidates));  // chi squared, about one a place
  }
}

TEST_CASE("ranks draw apart, seeds differ, and a seed draws the same again") {
  const auto draws = [](uint64_t seed) {
    SelectionRequest request = requestOf(5000, 100, 200, 2);
    request.params.seed = seed;
    SelectionRun<float> run(kPlan, request, false);
    std::vector<std::vector<float>> gradients(2, gradientsOf<float>(1, 5000, 3)[0]);
    run.step(gradients);
    return run.lists;
  };
  const auto first = draws(1);
  CHECK(first == draws(1));
  CHECK(first != draws(2));
  CHECK(first[0] != first[1]);
}

TEST_CASE("fewer candidates than entries are refused") {
  const auto refused = [](uint64_t k, uint64_t candidates) {
    return kPlan(requestOf(1000, k, candidates)).takeStatusOrOk().result() == sparsecollInvalidArgument;
  };
  CHECK(refused(100, 99));
  CHECK_FALSE(refused(100, 100));
  CHECK_FALSE(refused(2000, 1000));  // k is at most n
  CHECK_FALSE(refused(100, 0));
}

TEST_CASE("another density draws more or fewer, within what was planned") {
  SelectionRequest request = requestOf(10000, 0, 0);
  request.density = 0.01;
  request.maxDensity = 0.05;
  SelectionRun<float> run(kPlan, request, false);
  for (const double density : {0.05, 0.002, 0.01}) {
    REQUIRE(run[0].setDensity(density).ok());
    run.step(gradientsOf<float>(1, 10000, 9));
    const uint64_t k = entriesOf(density, 10000);
    REQUIRE(run.lists[0].size() == k);
    CHECK(within(run.lists[0], largest(run.accumulated[0], 2 * k)));
  }
  CHECK_FALSE(run[0].setDensity(0.06).ok());
}

}  // namespace
}  // namespace sparsecoll
