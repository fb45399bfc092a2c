// SIDCo's closed forms against worked values, and its published adaptation of the number of stages.
#include "selectors/sidco.h"

#include "tests/support/catch.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "selectors/selectors.h"
#include "tests/unit/selection_run.h"

namespace sparsecoll {
namespace {

TEST_CASE("one stage: worked values") {
  CHECK(sidco::exponentialQuantile(1, 0.01) == Approx(4.60517).epsilon(1e-5));
  CHECK(sidco::paretoQuantile(1, 1, 0.01) == Approx(4.60517).epsilon(1e-5));  // shape 0 is exponential
  CHECK(sidco::paretoQuantile(1, 2, 0.01) == Approx(0.75 * (1 - std::pow(0.01, -0.25)) / -0.25).epsilon(1e-12));
  CHECK(sidco::paretoQuantile(1, 2, 0.01) == Approx(6.487).epsilon(1e-3));
  CHECK(sidco::paretoQuantile(3, 0, 0.01) == Approx(3 * 4.60517).epsilon(1e-5));
  CHECK(std::isfinite(sidco::paretoQuantile(1, 1e12, 0.01)));  // heavier than any Pareto tail with a variance
  CHECK(sidco::paretoOf(1, 2).c == -0.25);
  CHECK(sidco::paretoOf(1, 2).s == 0.75);
  CHECK(sidco::paretoOf(1, 1e12).c == -0.49);
  CHECK(sidco::gammaShape(0.57722) == Approx(0.99094).epsilon(1e-4));
  CHECK(sidco::gammaQuantileOf(1, -0.57722, 0.01) == Approx(4.60517).epsilon(0.01));
}

TEST_CASE("stages share what the first leaves over") {
  CHECK(sidco::stageShare(0.001, 3) == Approx(0.063246).epsilon(1e-4));
  CHECK(sidco::stageShare(0.01, 2) == Approx(0.04).epsilon(1e-12));
}

// A Pareto variable without variance is taken for an exponential one.
TEST_CASE("faithful: equal magnitudes and zeros have finite thresholds, which decide what is sent") {
  constexpr uint64_t kLength = 1024;
  for (const sparsecollDistribution_t fit :
       {sparsecollDistributionExponential, sparsecollDistributionPareto, sparsecollDistributionGammaPareto})
    for (const double density : {0.5, 0.3, 0.01})
      for (const float magnitude : {0.0F, 2.0F}) {
        CAPTURE(static_cast<int>(fit), density, magnitude);
        SelectionRequest request;
        request.n = kLength;
        request.density = request.maxDensity = density;
        request.params.faithful = 1;
        request.params.distribution = fit;
        test::SelectionRun<float> run(selectorRow(sparsecollSelectSidco)->plan, request, false);
        std::vector<std::vector<float>> gradients(1, std::vector<float>(kLength, magnitude));
        for (uint64_t i = 0; i < kLength; i += 2) gradients[0][i] = -magnitude;
        const uint64_t sent = run.step(gradients);
        const double threshold = run.control().threshold;
        REQUIRE(std::isfinite(threshold));
        CHECK(sent == (static_cast<double>(magnitude) > threshold ? kLength : 0));
        if (fit == sparsecollDistributionGammaPareto) continue;  // its logarithms are of a little more than the entries
        const double share = static_cast<double>(run[0].k()) / static_cast<double>(kLength);
        CHECK(threshold == Approx(-static_cast<double>(magnitude) * std::log(share)));
      }
}

TEST_CASE("faithful: a Pareto fit of shape 0 is an exponential one") {
  constexpr uint64_t kLength = 1024;
  SelectionRequest request;
  request.n = kLength;
  request.density = request.maxDensity = 0.3;
  request.params.faithful = 1;
  request.params.distribution = sparsecollDistributionPareto;
  test::SelectionRun<float> run(selectorRow(sparsecollSelectSidco)->plan, request, false);
  // The mean is 2 and the variance 4, its square.
  std::vector<std::vector<float>> gradients(1, std::vector<float>(kLength));
  auto next = gradients[0].begin();
  for (const auto& [entries, magnitude] : {std::pair{4, 1.0F}, {1, 2.0F}, {1, 3.0F}, {506, 4.0F}, {3, 5.0F}})
    next = std::fill_n(next, entries, magnitude);
  const uint64_t sent = run.step(gradients);
  const double share = static_cast<double>(run[0].k()) / static_cast<double>(kLength);
  CHECK(run.control().threshold == Approx(-2 * std::log(share)));
  CHECK(sent == 1 + 506 + 3);
}

TEST_CASE("faithful: five steps decide on one stage more or less") {
  SelectionRequest request;
  request.n = 100000;
  request.density = request.maxDensity = 0.01;
  request.params.faithful = 1;
  const SelectionPlan plan = *selectorRow(sparsecollSelectSidco)->plan(request);
  Window window{};
  Control control{};
  control.windows = &window;
  control.windowCount = 1;
  control.n = request.n;
  control.k = plan.k;
  control.selector.as<SidcoState>().stages = 1;
  const auto fiveSteps = [&](uint64_t kept) {
    window.kept = kept;
    for (int step = 0; step < 5; ++step) plan.afterCut->onHost(control);
    return control.selector.as<SidcoState>().stages;
  };
  CHECK(fiveSteps(2000) == 1);  // not below 1
  CHECK(fiveSteps(500) == 2);
  CHECK(fiveSteps(700) == 3);
  CHECK(fiveSteps(810) == 3);
  CHECK(fiveSteps(1190) == 3);
  CHECK(fiveSteps(1300) == 2);
  for (int window5 = 0; window5 < 20; ++window5) (void)fiveSteps(1);
  CHECK(control.selector.as<SidcoState>().stages == 7);  // ceil(ln 0.01 / ln 0.5)
}

}  // namespace
}  // namespace sparsecoll
