// Top-k over many steps: exact in every one, and the key near enough that few read the vector twice.
#include <cmath>
#include "tests/support/catch.h"

#include "tests/unit/cut_step.h"
#include "tests/unit/selection_run.h"

namespace sparsecoll {
namespace {

using test::gradientsOf;
using test::SelectionRun;
using test::WindowSpec;

SelectionRequest requestOf(uint64_t n, double density) {
  SelectionRequest request;
  request.n = n;
  request.density = request.maxDensity = density;
  return request;
}

template <class A>
void checkExact(const SelectionRun<A>& run, const std::vector<WindowSpec>& windows) {
  const auto wanted = test::expectedSelection(run.accumulated[0], windows);
  REQUIRE(test::difference({run.lists[0], run.values[0]}, wanted) == "");
}

// Keys are finite magnitudes below what was kept, and never so low that zeros become candidates.
template <class A>
void checkGuards(const Control& control) {
  for (uint32_t w = 0; w < control.windowCount; ++w) {
    const Window& window = control.windows[w];
    CAPTURE(w, window.spread, window.key, window.keptKey);
    CHECK(window.spread >= 0.002);
    CHECK(window.spread <= 0.3);
    CHECK(window.key >= 1);
    CHECK(window.key <= Magnitude<A>::kInfinity);
    if (window.kept != 0 && window.keptKey != 0) CHECK(window.key <= window.keptKey);
  }
}

TEMPLATE_TEST_CASE("300 steps of error feedback are exact and rarely read the vector twice", "", float, double) {
  const uint64_t n = 20000;
  for (const double density : {0.001, 0.01, 0.1}) {
    CAPTURE(density);
    SelectionRun<TestType> run(selectorRow(sparsecollSelectTopK)->plan, requestOf(n, density), false);
    const uint64_t k = run[0].k();
    uint64_t fallbacks = 0;
    uint64_t candidates = 0;
    for (uint64_t step = 0; step < 300; ++step) {
      CAPTURE(step);
      const double scale = (step < 150 ? 1 : 0.1) * (1 + 0.1 * std::sin(static_cast<double>(step)));
      REQUIRE(run.step(gradientsOf<TestType>(1, n, step, scale)) == k);
      if (step % 10 == 0 || (step >= 148 && step < 160)) checkExact(run, {{0, n, k}});
      checkGuards<TestType>(run.control());
      const bool settled = (step >= 20 && step < 150) || step >= 170;
      if (!settled) continue;
      fallbacks += run.control().fallbacks;
      candidates += run.control().candidates;
    }
    CHECK(fallbacks <= 13);  // 5 % of 260 steps
    CHECK(candidates <= 260 * (3 * k + 20));
  }
}

TEST_CASE("segments have keys of their own") {
  const uint64_t n = 12000;
  SelectionRequest request = requestOf(n, 0.01);
  const sparsecollSegment_t segments[] = {{5000, 0, 0, 0}, {100, 1, 0, 0}, {6900, 0.05, 0, 0}};
  request.segments = segments;
  SelectionRun<float> run(selectorRow(sparsecollSelectTopK)->plan, request, false);
  uint64_t fallbacks = 0;
  for (uint64_t step = 0; step < 60; ++step) {
    CAPTURE(step);
    auto gradients = gradientsOf<float>(1, n, step);
    for (uint64_t i = 5100; i < n; ++i) gradients[0][i] *= 1000;  // layers differ in scale
    CHECK(run.step(gradients) == 50 + 100 + 345);
    checkExact(run, {{0, 5000, 50}, {5000, 5100, 100}, {5100, 12000, 345}});
    CHECK(run.control().windows[1].key == 0);
    if (step >= 20) fallbacks += run.control().fallbacks;
  }
  CHECK(fallbacks <= 8);  // a tenth of two keys in 40 steps
}

// What can throw a key off: nothing to select from, everything alike, one entry far above the rest, NaN and Inf.
TEST_CASE("keys recover from odd steps") {
  const uint64_t n = 5000;
  const test::Fill odd[] = {test::Fill::kZero,  test::Fill::kEqual,     test::Fill::kOutlier,
                            test::Fill::kRange, test::Fill::kSubnormal, test::Fill::kHostile};
  for (const test::Fill fill : odd) {
    CAPTURE(static_cast<int>(fill));
    SelectionRun<float> run(selectorRow(sparsecollSelectTopK)->plan, requestOf(n, 0.01), false);
    uint64_t late = 0;
    for (uint64_t step = 0; step < 40; ++step) {
      CAPTURE(step);
      const bool isOdd = step == 0 || step == 5 || step == 6;
      const bool isAfter = step == 1 || step == 7;
      if (isOdd || isAfter) std::fill(run.residuals[0].begin(), run.residuals[0].end(), 0.0F);
      auto gradients = gradientsOf<float>(1, n, step);
      if (isOdd) gradients[0] = test::makeVector<float>(fill, n, step);
      run.step(gradients);
      checkExact(run, {{0, n, 50}});
      checkGuards<float>(run.control());
      for (float& x : run.residuals[0])
        if (!std::isfinite(x)) x = 0;
      if (step >= 25) late += run.control().fallbacks;
    }
    CHECK(late <= 3);
  }
}

TEST_CASE("a density of one sends everything and needs no key") {
  SelectionRun<float> run(selectorRow(sparsecollSelectTopK)->plan, requestOf(1000, 1), false);
  for (uint64_t step = 0; step < 3; ++step) {
    CHECK(run.step(gradientsOf<float>(1, 1000, step)) == 1000);
    CHECK(run.control().fallbacks == 0);
    CHECK(run.control().windows[0].key == 0);
  }
}

TEST_CASE("the header's threshold is the least magnitude sent") {
  const uint64_t n = 5000;
  SelectionRun<float> run(selectorRow(sparsecollSelectTopK)->plan, requestOf(n, 0.01), false);
  for (uint64_t step = 0; step < 20; ++step) {
    CAPTURE(step);
    run.step(gradientsOf<float>(1, n, step));
    float least = std::numeric_limits<float>::infinity();
    for (const float value : run.values[0]) least = std::min(least, std::fabs(value));
    CHECK(run.control().threshold == static_cast<double>(least));
  }
}

// It used to be a NaN, which is what lies above the largest key there is.
TEST_CASE("a step that selects nothing tells a threshold that is a number") {
  SelectionRequest request = requestOf(1000, 0);
  request.maxDensity = 0.01;
  request.selectNothing = true;
  SelectionRun<float> run(selectorRow(sparsecollSelectTopK)->plan, request, false);
  CHECK(run.step(gradientsOf<float>(1, 1000, 1)) == 0);
  CHECK_FALSE(std::isnan(run.control().threshold));
}

TEST_CASE("each of hundreds of chunks keeps its largest entries") {
  constexpr uint64_t kChunk = 16;
  constexpr uint64_t kChunks = 300;  // so many make their keys move in smaller steps
  SelectionRequest request = requestOf(kChunk * kChunks, 0.125);
  request.params.chunk = kChunk;
  SelectionRun<float> run(selectorRow(sparsecollSelectChunkTopK)->plan, request, false);
  std::vector<WindowSpec> windows;
  for (uint64_t c = 0; c < kChunks; ++c) windows.push_back({c * kChunk, (c + 1) * kChunk, 2});
  for (uint64_t step = 0; step < 10; ++step) {
    CAPTURE(step);
    REQUIRE(run.step(gradientsOf<float>(1, kChunk * kChunks, step)) == 2 * kChunks);
    checkExact(run, windows);
  }
}

}  // namespace
}  // namespace sparsecoll
