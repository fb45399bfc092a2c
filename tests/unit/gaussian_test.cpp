// GaussianK's published trials against loops that do the same one entry at a time.
#include "tests/support/catch.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "core/math.h"
#include "tests/unit/selection_run.h"

namespace sparsecoll {
namespace {

constexpr uint64_t kLength = 3000;

// Magnitudes below 1 of which more or fewer are large: 1 is uniform.
std::vector<double> powersOf(double exponent, uint64_t seed) {
  test::Random random(seed);
  std::vector<double> values(kLength);
  for (double& value : values) {
    const auto uniform = static_cast<double>((random() >> 11) + 1) * 0x1p-53;
    value = (random() % 2 == 0 ? 1 : -1) * std::pow(uniform, exponent);
  }
  return values;
}

uint64_t countAbove(const std::vector<double>& values, double threshold) {
  return static_cast<uint64_t>(
      std::count_if(values.begin(), values.end(), [&](double value) { return std::abs(value) > threshold; }));
}

double normalThreshold(const std::vector<double>& values, double share) {
  const auto n = static_cast<double>(values.size());
  double mean = 0;
  double squares = 0;
  for (const double value : values) mean += value / n;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return mean + normalQuantile(share / 2) * std::sqrt(squares / (n - 1));
}

struct Tried {
  double threshold;
  uint64_t count;
  size_t trials;
};

Tried triesOfShi(const std::vector<double>& values, double k) {
  Tried tried{normalThreshold(values, k / static_cast<double>(kLength)), 0, 0};
  for (;;) {
    tried.count = countAbove(values, tried.threshold);
    const auto count = static_cast<double>(tried.count);
    if (++tried.trials == 3 || (count >= 2 * k / 3 && count <= 4 * k / 3)) return tried;
    tried.threshold *= count < 2 * k / 3 ? 0.5 : 1.5;
  }
}

Tried triesOfOkTopk(const std::vector<double>& values, double k) {
  Tried tried{normalThreshold(values, k / static_cast<double>(kLength)), 0, 0};
  tried.count = countAbove(values, tried.threshold);
  const bool lowers = static_cast<double>(tried.count) < 0.75 * k;
  for (; tried.trials < 20; ++tried.trials) {
    const auto count = static_cast<double>(tried.count);
    if (lowers ? count >= 0.75 * k : count <= 1.25 * k) return tried;
    tried.threshold *= lowers ? 1 / 1.02 : 1.02;
    tried.count = countAbove(values, tried.threshold);
  }
  return tried;
}

// How often each number of trials was enough.
std::array<int, 21> checkTrials(int rule, Tried (*tries)(const std::vector<double>&, double)) {
  std::array<int, 21> often{};
  for (const uint64_t k : {12u, 60u, 300u, 900u})  // thirds and quarters are whole
    for (int shape = 0; shape < 60; ++shape) {
      CAPTURE(rule, k, shape);
      SelectionRequest request;
      request.n = kLength;
      request.k = k;
      request.params.faithful = rule;
      test::SelectionRun<double> run(selectorRow(sparsecollSelectGaussian)->plan, request, false);
      const std::vector<double> values = powersOf(0.02 * std::pow(1.12, shape), k + static_cast<uint64_t>(shape));
      const Tried expected = tries(values, static_cast<double>(k));
      ++often[expected.trials];
      CHECK(run.step({values}) == std::min(expected.count, run[0].capacity()));
      CHECK(run.control().threshold == Approx(expected.threshold).epsilon(1e-9));
    }
  return often;
}

TEST_CASE("Shi et al.: at most three trials, to within a third of k") {
  const std::array<int, 21> often = checkTrials(1, triesOfShi);
  for (const size_t trials : {1u, 2u, 3u}) CHECK(often[trials] >= 5);
}

TEST_CASE("Ok-Topk's: at most twenty trials in the direction of the first, to within a quarter of k") {
  const std::array<int, 21> often = checkTrials(2, triesOfOkTopk);
  for (const size_t trials : {0u, 1u, 20u}) CHECK(often[trials] >= 5);
}

}  // namespace
}  // namespace sparsecoll
