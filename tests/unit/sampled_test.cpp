// DGC's selection: a threshold from a sample, and the exact top k where far more exceed it.
#include "tests/support/catch.h"

#include <algorithm>
#include <cmath>

#include "tests/unit/cut_step.h"
#include "tests/unit/selection_run.h"

namespace sparsecoll {
namespace {

using test::gradientsOf;
using test::SelectionRun;

SelectionRequest requestOf(uint64_t n, double density, bool faithful) {
  SelectionRequest request;
  request.n = n;
  request.density = request.maxDensity = density;
  request.params.faithful = faithful ? 1 : 0;
  return request;
}

// What the rule sends of acc with a threshold; again: it was taken from too many.
template <class A>
std::vector<uint32_t> expected(const std::vector<A>& acc, double threshold, bool above, uint64_t k, bool& again) {
  std::vector<uint32_t> found;
  for (uint32_t i = 0; i < acc.size(); ++i) {
    const auto magnitude = std::abs(static_cast<double>(acc[i]));
    if (above ? magnitude > threshold : magnitude >= threshold) found.push_back(i);
  }
  again = found.size() > k + k / 3;
  if (!again) return found;
  return test::expectedSelection(acc, {{0, acc.size(), k}}).indices;
}

struct Counts {
  uint64_t again = 0;
  uint64_t fallbacks = 0;
  uint64_t sent = 0;
};

template <class A>
Counts checkSteps(uint64_t n, double density, bool faithful, uint64_t steps) {
  CAPTURE(n, density, faithful);
  SelectionRun<A> run(selectorRow(sparsecollSelectSampled)->plan, requestOf(n, density, faithful), false);
  const uint64_t k = run[0].k();
  CHECK(run[0].capacity() == std::min(n, k + k / 3));
  Counts counts;
  for (uint64_t step = 0; step < steps; ++step) {
    run.step(gradientsOf<A>(1, n, step, 1 + 0.2 * std::sin(static_cast<double>(step))));
    bool again = false;
    const auto wanted = expected(run.accumulated[0], run.control().threshold, faithful, k, again);
    if (run.lists[0] != wanted) FAIL("step " << step << ": " << run.lists[0].size() << " not " << wanted.size());
    counts.again += again ? 1 : 0;
    counts.fallbacks += run.control().fallbacks;
    counts.sent += run.lists[0].size();
    CHECK(run.control().overflows == 0);
  }
  return counts;
}

TEMPLATE_TEST_CASE("entries over the sample's quantile, or the top k of them", "", float, double) {
  for (const uint64_t n : {1u, 3u, 100u, 30000u})
    for (const double density : {0.002, 0.05, 1.0}) checkSteps<TestType>(n, density, false, 12);
  const Counts settled = checkSteps<TestType>(100000, 0.01, false, 40);
  CHECK(static_cast<double>(settled.sent) / 40 / 1000 == Approx(1).margin(0.05));
  CHECK(settled.fallbacks == 0);
}

TEST_CASE("the published sample of one in a hundred misses k, up to a third above it") {
  for (const uint64_t n : {1u, 3u, 100u, 30000u})
    for (const double density : {0.002, 0.05, 1.0}) checkSteps<float>(n, density, true, 12);
  const Counts counts = checkSteps<float>(100000, 0.01, true, 40);  // the 10th largest of 1000
  CHECK(counts.again > 0);
  CHECK(counts.again < 40);
}

TEST_CASE("all that differs from zero is sent where that is less than k") {
  SelectionRun<float> run(selectorRow(sparsecollSelectSampled)->plan, requestOf(1000, 0.1, false), false);
  std::vector<std::vector<float>> gradients(1, std::vector<float>(1000));
  for (const uint32_t i : {7u, 300u, 999u}) gradients[0][i] = -1e-30F;
  CHECK(run.step(gradients) == 3);
  CHECK(run.lists[0] == std::vector<uint32_t>{7, 300, 999});
  gradients[0].assign(1000, 0);
  CHECK(run.step(gradients) == 0);
  gradients[0].assign(1000, 2);  // equal magnitudes: the lowest indices, in every other step
  CHECK(run.step(gradients) == 100);
  CHECK(run.lists[0].back() == 99);
  CHECK(run.step(gradients) + run.step(gradients) == 100);
}

TEST_CASE("nothing is selected on request") {
  SelectionRequest request = requestOf(1000, 0, false);
  request.selectNothing = true;
  request.maxDensity = 0.1;
  SelectionRun<float> run(selectorRow(sparsecollSelectSampled)->plan, request, false);
  CHECK(run.step(gradientsOf<float>(1, 1000, 1)) == 0);
  CHECK(run[0].setDensity(0.1).ok());
  CHECK(run.step(gradientsOf<float>(1, 1000, 2)) > 0);
}

}  // namespace
}  // namespace sparsecoll
