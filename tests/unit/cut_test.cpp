// Exact selection: the limit largest magnitudes, ties to the lowest index, whatever the key was.
#include <set>
#include "tests/support/catch.h"

#include "tests/unit/cut_step.h"
#include "tests/unit/isas.h"

namespace sparsecoll {
namespace {

using host::makeHostKernels;
using test::CutStep;
using test::difference;
using test::expectedSelection;
using test::Fill;
using test::makeVector;
using test::Selected;
using test::WindowSpec;

template <class A>
uint64_t infinity() {
  return Magnitude<A>::kInfinity;
}

// 0, 1, below, near, at and above the limit-th magnitude, and beyond every finite one.
template <class A>
std::vector<uint64_t> keysAround(A limitth) {
  std::vector<uint64_t> keys = {0, 1, infinity<A>()};
  if (!std::isfinite(limitth)) return keys;
  for (const double factor : {0.5, 0.9, 1.0, 2.0})
    keys.push_back(keyOfThreshold(factor * std::fabs(static_cast<double>(limitth)), sizeof(A) == 8));
  return keys;
}

// Everything a window says about itself after a cut agrees with what was kept.
template <class A>
void checkBooks(const CutStep<A>& step, const std::vector<WindowSpec>& specs, const std::vector<A>& acc) {
  uint64_t kept = 0;
  uint64_t fallbacks = 0;
  uint64_t overflows = 0;
  uint64_t candidates = 0;
  for (size_t w = 0; w < specs.size(); ++w) {
    const Window& window = step.window(w);
    uint64_t found = 0;
    uint64_t above = 0;
    uint64_t equal = 0;
    for (uint64_t i = specs[w].begin; i < specs[w].end; ++i) {
      const uint64_t key = Magnitude<A>::of(acc[i]);
      found += key >= specs[w].key ? 1 : 0;
      above += key > window.keptKey ? 1 : 0;
      equal += key == window.keptKey ? 1 : 0;
    }
    CHECK(step.passFound[w] == found);
    if (window.keptForced == 0) CHECK(above + std::min(equal, window.keptEquals) == window.kept);
    const uint64_t need = std::min(specs[w].limit, specs[w].exact ? specs[w].length() : found);
    fallbacks += found > specs[w].slots || found < need ? 1 : 0;
    overflows += !specs[w].exact && found > specs[w].limit ? 1 : 0;
    candidates += found;
    kept += window.kept;
  }
  CHECK(step.control.selected == kept);
  CHECK(step.control.candidates == candidates);
  CHECK(step.control.fallbacks == fallbacks);
  CHECK(step.control.overflows == overflows);
}

template <class A>
uint32_t nonFiniteIn(const std::vector<A>& acc) {
  return static_cast<uint32_t>(std::count_if(acc.begin(), acc.end(), [](A x) { return !std::isfinite(x); }));
}

// Non-finite entries are noticed, and those that are named are some.
template <class A>
void checkNonFinite(const NonFinite& seen, const std::vector<A>& acc) {
  CHECK((seen.count != 0) == (nonFiniteIn(acc) != 0));
  std::set<uint32_t> named;
  for (uint32_t i = 0; i < std::min(seen.count, kMaxNonFiniteIndices); ++i) {
    REQUIRE(seen.indices[i] < acc.size());
    CHECK_FALSE(std::isfinite(acc[seen.indices[i]]));
    CHECK(named.insert(seen.indices[i]).second);
  }
}

template <class A>
void checkExact(Kernels& kernels, const std::vector<A>& acc, uint64_t limit) {
  const uint64_t n = acc.size();
  const std::vector<uint32_t> byMagnitude = test::sortedByMagnitude(acc, 0, n);
  const A limitth = limit == 0 ? A{0} : acc[byMagnitude[std::min(limit, n) - 1]];
  Selected<A> wanted;
  for (const uint64_t key : keysAround(limitth))
    for (const uint64_t slots : {n, std::min(n, 3 * limit + 256), limit, limit / 2}) {
      const std::vector<WindowSpec> specs = {{0, n, limit, key, slots}};
      CAPTURE(n, limit, key, slots);
      CutStep<A> step(acc, specs);
      const Selected<A> got = step.run(kernels);
      if (wanted.indices.empty()) wanted = expectedSelection(step.acc(), specs);
      REQUIRE(difference(got, wanted) == "");
      checkBooks(step, specs, step.acc());
      checkNonFinite(step.control.nonFinite, step.acc());
    }
}

TEMPLATE_TEST_CASE("exact selection is the sorted prefix whatever the key and the candidates' room", "", float,
                   double) {
  for (const test::Fill fill : test::kFills)
    for (const uint64_t n : {1, 2, 5, 33, 1000, 20011}) {
      CAPTURE(static_cast<int>(fill));
      const auto acc = makeVector<TestType>(fill, n, n + 5);
      const auto kernels = makeHostKernels();
      for (const uint64_t limit : std::set<uint64_t>{0, 1, 2, n / 100, n / 2, n - 1, n, n + 3})
        checkExact(*kernels, acc, limit);
    }
}

TEST_CASE("every instruction set selects alike") {
  const auto acc = makeVector<float>(Fill::kHostile, 3001, 1);
  for (const host::Isa* isa : test::availableIsas()) {
    INFO(isa->name);
    const auto kernels = makeHostKernels(*isa);
    for (const uint64_t limit : {3, 30, 1500}) checkExact(*kernels, acc, limit);
  }
}

// Off by one in the number of equal entries, or another tie rule, changes these.
TEST_CASE("of equal magnitudes the lowest indices are kept") {
  const auto kernels = makeHostKernels();
  const std::vector<float> acc = {1, -2, 2, 0, -2, 3, 2, -1, 2};
  const std::vector<std::vector<uint32_t>> wanted = {
      {}, {5}, {1, 5}, {1, 2, 5}, {1, 2, 4, 5}, {1, 2, 4, 5, 6}, {1, 2, 4, 5, 6, 8}, {0, 1, 2, 4, 5, 6, 8}};
  for (uint64_t limit = 0; limit < wanted.size(); ++limit)
    for (const float key : {0.0F, 1.0F, 2.0F, 3.0F, 4.0F}) {
      CAPTURE(limit, key);
      CutStep<float> step(acc, {{0, 9, limit, Magnitude<float>::of(key), 9}});
      CHECK(step.run(*kernels).indices == wanted[limit]);
    }
}

TEMPLATE_TEST_CASE("values lie apart or packed", "", float, double) {
  const auto acc = makeVector<TestType>(Fill::kTies, 500, 3);
  for (const uint64_t limit : {0, 1, 3, 4, 5, 100}) {
    const std::vector<WindowSpec> specs = {{0, 250, limit, 1, 250}, {250, 500, limit, infinity<TestType>(), 5}};
    for (const auto where : {List::Values::kApart, List::Values::kPacked}) {
      CAPTURE(limit, static_cast<int>(where));
      CutStep<TestType> step(acc, specs, where);
      const auto got = step.run(*makeHostKernels());
      CHECK(difference(got, expectedSelection(acc, specs)) == "");
    }
  }
}

TEMPLATE_TEST_CASE("windows are selected from one by one", "", float, double) {
  const uint64_t inf = infinity<TestType>();
  const uint64_t typical = keyOfThreshold(1.0, sizeof(TestType) == 8);
  const std::vector<std::vector<WindowSpec>> rows = {
      {{0, 3000, 10, inf, 100}},
      {{0, 1000, 5, typical, 400}, {1000, 1001, 1, 0, 1}, {1001, 3000, 20, inf, 30}},
      {{100, 200, 100, 0, 100}, {200, 200, 5, 0, 4}, {200, 900, 0, inf, 10}, {2000, 2999, 7, typical, 3}},
      {{0, 700, 9999, typical, 700, false}, {700, 1400, 30, typical, 700, false}, {1500, 2500, 40, typical, 20, false}},
      {{0, 1000, 5, inf, 8, false, 3}, {1000, 2000, 5, typical, 500, false, 1999}, {2000, 3000, 3, 1, 9, true, 2500}},
      {{0, 1, 1, inf, 1}, {1, 2, 1, inf, 0, false, 1}, {2, 3, 0, 0, 1}, {2999, 3000, 1, 0, 1}},
  };
  for (size_t row = 0; row < rows.size(); ++row)
    for (const Fill fill : {Fill::kSmooth, Fill::kTies, Fill::kZero, Fill::kHostile}) {
      CAPTURE(row, static_cast<int>(fill));
      const auto acc = makeVector<TestType>(fill, 3000, row);
      CutStep<TestType> step(acc, rows[row], List::Values::kPacked);
      const auto got = step.run(*makeHostKernels());
      CHECK(difference(got, expectedSelection(step.acc(), rows[row])) == "");
      checkBooks(step, rows[row], step.acc());
      checkNonFinite(step.control.nonFinite, step.acc());
    }
}

TEMPLATE_TEST_CASE("at most limit entries reach a threshold and the largest stay", "", float, double) {
  for (const Fill fill : {Fill::kSmooth, Fill::kTies, Fill::kEqual, Fill::kTight, Fill::kHostile})
    for (const double threshold : {0.0, 0.375, 1.0, 3.0, 1e35})
      for (const uint64_t limit : {1, 50, 400, 5000})
        for (const uint64_t slots : {10, 300, 5000}) {
          CAPTURE(static_cast<int>(fill), threshold, limit, slots);
          const auto acc = makeVector<TestType>(fill, 5000, 8);
          const std::vector<WindowSpec> specs = {
              {0, 5000, limit, keyOfThreshold(threshold, sizeof(TestType) == 8), slots, false}};
          CutStep<TestType> step(acc, specs);
          const auto got = step.run(*makeHostKernels());
          REQUIRE(difference(got, expectedSelection(step.acc(), specs)) == "");
          checkBooks(step, specs, step.acc());
          checkNonFinite(step.control.nonFinite, step.acc());
        }
}

TEST_CASE("a forced index goes out only when nothing else does") {
  const auto kernels = makeHostKernels();
  const std::vector<float> acc = {0.5F, -0.25F, 0.125F, 2.0F};
  const uint64_t one = Magnitude<float>::of(1.0F);
  const uint64_t three = Magnitude<float>::of(3.0F);
  CutStep<float> quiet(acc, {{0, 3, 3, one, 3, false, 1}});
  const auto forced = quiet.run(*kernels);
  CHECK(forced.indices == std::vector<uint32_t>{1});
  CHECK(forced.values == std::vector<float>{-0.25F});
  CHECK(quiet.window(0).keptForced == 1);
  CHECK(quiet.window(0).kept == 1);
  CutStep<float> loud(acc, {{0, 4, 4, one, 4, false, 1}});
  CHECK(loud.run(*kernels).indices == std::vector<uint32_t>{3});
  CHECK(loud.window(0).keptForced == 0);
  CutStep<float> two(acc, {{0, 2, 2, three, 2, false, 0}, {2, 4, 2, three, 2, false, 2}}, List::Values::kPacked);
  CHECK(two.run(*kernels).indices == std::vector<uint32_t>{0, 2});
}

// The gradient itself is acc. What was selected must not depend on whether the key let it be a candidate: candidates
// of value +0 used to stand for a -0 in the gradient.
TEMPLATE_TEST_CASE("without an acc of its own a selection takes the gradient's bits", "", float, double) {
  for (const Fill fill : {Fill::kSmooth, Fill::kZero, Fill::kTies, Fill::kHostile}) {
    const auto acc = makeVector<TestType>(fill, 300, 4);
    for (const host::Isa* isa : test::availableIsas())
      for (const uint64_t key : {uint64_t{0}, infinity<TestType>()}) {
        CAPTURE(static_cast<int>(fill), isa->name, key);
        const std::vector<WindowSpec> specs = {{0, 300, 250, key, 300}};
        CutStep<TestType> step(acc, specs);
        REQUIRE(difference(step.run(*makeHostKernels(*isa), false), expectedSelection(acc, specs)) == "");
      }
  }
}

// How many there are and which are named is a matter of the vector, not of the key: a key taken from a sample used
// to lie above Inf, and what lay below it was left out.
TEMPLATE_TEST_CASE("all non-finite entries are counted and the first 16 of a window named", "", float, double) {
  for (const uint64_t n : {20, 1000, 20011}) {
    const auto acc = makeVector<TestType>(Fill::kHostile, n, n);
    std::vector<uint32_t> first;
    for (uint32_t i = 0; i < n && first.size() < kMaxNonFiniteIndices; ++i)
      if (!std::isfinite(acc[i])) first.push_back(i);
    for (const uint64_t limit : {uint64_t{0}, uint64_t{1}, n / 100, n / 2})
      for (const uint64_t key : {uint64_t{0}, uint64_t{1}, infinity<TestType>()})
        for (const uint64_t slots : {n, std::min(n, 3 * limit + 256), uint64_t{1}}) {
          CAPTURE(n, limit, key, slots);
          CutStep<TestType> step(acc, {{0, n, limit, key, slots}});
          step.run(*makeHostKernels());
          const NonFinite& seen = step.control.nonFinite;
          REQUIRE(seen.count == nonFiniteIn(acc));
          CHECK(std::vector<uint32_t>(seen.indices, seen.indices + first.size()) == first);
        }
  }
}

TEST_CASE("half gradients are selected from in float") {
  const auto kernels = makeHostKernels();
  const auto gradient = test::makeElements<Half>(Fill::kSmooth, 2000, 6);
  std::vector<float> residual = makeVector<float>(Fill::kSmooth, 2000, 7);
  std::vector<float> wanted;
  for (size_t i = 0; i < 2000; ++i) wanted.push_back(std::fma(0.5F, toFloat(gradient[i]), residual[i]));
  Window window{};
  window.end = 2000;
  window.limit = 20;
  window.slots = 300;
  window.key = keyOfThreshold(2.0, false);
  window.exact = 1;
  window.forced = kNoForcedIndex;
  Control control{};
  control.n = 2000;
  control.windows = &window;
  control.windowCount = 1;
  std::vector<uint32_t> candidateIndices(300);
  std::vector<float> candidateValues(300);
  PassArgs pass;
  pass.gradient = gradient.data();
  pass.gradientType = sparsecollFloat16;
  pass.in = pass.out = residual.data();
  pass.scale = 0.5;
  pass.n = 2000;
  pass.control = &control;
  pass.candidateIndices = candidateIndices.data();
  pass.candidateValues = candidateValues.data();
  kernels->pass(pass, {});
  CHECK(difference(residual, wanted) == "");
  Selected<float> got{std::vector<uint32_t>(20), std::vector<float>(20)};
  uint32_t count = 0;
  CutArgs cut;
  cut.acc = residual.data();
  cut.control = &control;
  cut.candidateIndices = candidateIndices.data();
  cut.candidateValues = candidateValues.data();
  cut.target = {got.indices.data(), got.values.data(), &count, 20, List::Values::kApart};
  kernels->cut(cut, {});
  CHECK(count == 20);
  CHECK(difference(got, expectedSelection<float>(wanted, {{0, 2000, 20}})) == "");
}

}  // namespace
}  // namespace sparsecoll
