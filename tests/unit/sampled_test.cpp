// DGC's selection: a threshold from a sample, and the exact top k where far more exceed it.
#include "tests/support/catch.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <span>

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
std::vector<uint32_t> expected(const std::vector<A>& acc, double threshold, uint64_t k, bool& again) {
  std::vector<uint32_t> found;
  for (uint32_t i = 0; i < acc.size(); ++i)
    if (std::abs(static_cast<double>(acc[i])) >= threshold) found.push_back(i);
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
Counts checkSteps(uint64_t n, double density, uint64_t steps) {
  CAPTURE(n, density);
  SelectionRun<A> run(selectorRow(sparsecollSelectSampled)->plan, requestOf(n, density, false), false);
  const uint64_t k = run[0].k();
  CHECK(run[0].capacity() == std::min(n, k + k / 3));
  Counts counts;
  for (uint64_t step = 0; step < steps; ++step) {
    run.step(gradientsOf<A>(1, n, step, 1 + 0.2 * std::sin(static_cast<double>(step))));
    bool again = false;
    const auto wanted = expected(run.accumulated[0], run.control().threshold, k, again);
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
    for (const double density : {0.002, 0.05, 1.0}) checkSteps<TestType>(n, density, 12);
  const Counts settled = checkSteps<TestType>(100000, 0.01, 40);
  CHECK(static_cast<double>(settled.sent) / 40 / 1000 == Approx(1).margin(0.05));
  CHECK(settled.fallbacks == 0);
}

// Whether these are the k largest of a tensor, the first k by index that reach a magnitude, or all that do.
template <class A>
bool asPublished(const std::vector<A>& acc, std::span<const uint32_t> sent, uint64_t begin, uint64_t end, uint64_t k) {
  if (sent.empty() || sent.size() > k) return false;
  std::vector<A> magnitudes;
  for (uint64_t i = begin; i < end; ++i) magnitudes.push_back(std::abs(acc[i]));
  A least = std::abs(acc[sent[0]]);
  for (const uint32_t i : sent) least = std::min(least, std::abs(acc[i]));
  const auto reach = [&](uint64_t until) {
    return std::count_if(magnitudes.begin(), magnitudes.begin() + static_cast<std::ptrdiff_t>(until - begin),
                         [&](A magnitude) { return magnitude >= least; });
  };
  const auto count = static_cast<std::ptrdiff_t>(sent.size());
  return reach(end) == count || (sent.size() == k && reach(sent.back() + 1) == count);
}

TEMPLATE_TEST_CASE("faithful: tensor by tensor, at most k of each, and none of those that are sent dense", "", float,
                   double) {
  const std::vector<sparsecollSegment_t> tensors = {{20000, 0, 0, 0}, {30, 0, 1, 0}, {150, 0, 0, 0}, {9820, 0, 0, 0}};
  SelectionRequest request = requestOf(30000, 0.01, true);
  request.segments = tensors;
  SelectionRun<TestType> run(selectorRow(sparsecollSelectSampled)->plan, request, false);
  for (uint64_t step = 0; step < 12; ++step) {
    run.step(gradientsOf<TestType>(1, request.n, step));
    const std::vector<uint32_t>& sent = run.lists[0];
    auto at = sent.begin();
    uint64_t begin = 0;
    for (const sparsecollSegment_t& tensor : tensors) {
      CAPTURE(step, begin);
      const uint64_t end = begin + tensor.length;
      const auto next = std::lower_bound(at, sent.end(), end);
      const std::span<const uint32_t> here(at, next);
      if (tensor.dense != 0)
        CHECK(here.empty());
      else
        CHECK(asPublished(run.accumulated[0], here, begin, end, (tensor.length + 99) / 100));
      at = next;
      begin = end;
    }
  }
}

// The steps of the published rule, read off its description: what is sent of acc if the sample begins at `start`.
std::vector<uint32_t> sentAsPublished(const std::vector<double>& acc, double share, uint64_t stride, uint64_t start) {
  const auto magnitude = [&](uint64_t i) { return std::abs(acc[i]); };
  const auto shareOf = [&](uint64_t length) {
    return static_cast<uint64_t>(std::ceil(static_cast<double>(length) * share));
  };
  std::vector<double> sample;
  for (uint64_t i = start; i < acc.size(); i += stride) sample.push_back(magnitude(i));
  const uint64_t top = std::max<uint64_t>(shareOf(acc.size() / stride), 1);
  std::sort(sample.begin(), sample.end(), std::greater<>());
  double threshold = sample[top - 1];
  const uint64_t entries = shareOf(acc.size());
  std::vector<uint32_t> found;
  for (int trial = 0; trial <= 10; ++trial) {
    found.clear();
    for (uint32_t i = 0; i < acc.size(); ++i)
      if (magnitude(i) >= threshold) found.push_back(i);
    if (static_cast<double>(found.size()) >= 0.8 * static_cast<double>(entries) || stride == 1) break;
    threshold *= 0.8;
  }
  if (static_cast<double>(found.size()) > 1.3 * static_cast<double>(entries)) {
    found.resize(acc.size());
    std::iota(found.begin(), found.end(), 0u);
    std::stable_sort(found.begin(), found.end(), [&](uint32_t a, uint32_t b) { return magnitude(a) > magnitude(b); });
  }
  found.resize(std::min<size_t>(found.size(), entries));
  std::sort(found.begin(), found.end());
  return found;
}

TEST_CASE("faithful: the sample is every so many entries, and what is sent follows from it") {
  struct Row {
    uint64_t n;
    double share;
    uint64_t stride;  // by hand: as few entries as hold max(n / 100, 2 / share), in steps of 8 down from 32 i + 1
  };
  for (const Row& row : {Row{1000, 0.002, 1}, Row{1001, 0.002, 1}, Row{20000, 0.002, 17}, Row{20000, 0.1, 97},
                         Row{200000, 0.01, 97}, Row{50000, 0.0008, 17}, Row{6000, 0.01, 25}}) {
    CAPTURE(row.n, row.share);
    SelectionRun<double> run(selectorRow(sparsecollSelectSampled)->plan, requestOf(row.n, row.share, true), false);
    const double share = static_cast<double>(run[0].k()) / static_cast<double>(row.n);
    for (uint64_t step = 0; step < 3; ++step) {
      CAPTURE(step);
      run.step(gradientsOf<double>(1, row.n, step));
      bool published = false;
      for (uint64_t start = 0; start < row.stride && !published; ++start)
        published = run.lists[0] == sentAsPublished(run.accumulated[0], share, row.stride, start);
      CHECK(published);
    }
  }
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
