// What a histogram tells against the entries it was counted from, and the sample that fills it.
#include "selectors/magnitudes.h"

#include "tests/support/catch.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "host/host_kernels.h"

namespace sparsecoll {
namespace {

// A control block with one window over everything.
struct Sampled {
  explicit Sampled(const std::vector<float>& gradient, const float* residual = nullptr, double scale = 1,
                   uint64_t iteration = 0)
      : counts(kHistogramBins) {
    window.end = gradient.size();
    control.windows = &window;
    control.windowCount = 1;
    control.histogram = counts.data();
    control.iteration = iteration;
    PassArgs args;
    args.gradient = gradient.data();
    args.in = residual;
    args.scale = scale;
    args.n = gradient.size();
    args.control = &control;
    host::makeHostKernels()->sample(args, {});
  }
  std::vector<uint32_t> counts;
  Window window{};
  Control control{};
};

std::vector<float> laplace(uint64_t n, double scale) {
  std::mt19937_64 random(7);
  std::exponential_distribution<double> distribution;
  std::vector<float> values(n);
  for (float& value : values) value = static_cast<float>((random() % 2 == 0 ? 1 : -1) * scale * distribution(random));
  return values;
}

TEST_CASE("counts, quantiles and moments are those of the entries") {
  for (const double scale : {1.0, 1e-20, 3e10}) {
    CAPTURE(scale);
    const std::vector<float> values = laplace(100000, scale);
    const Sampled sampled(values);
    CrewMemory sampleMemory;
    const Magnitudes sample(sampled.control, Crew(sampleMemory));
    std::vector<double> sorted;
    for (const float value : values) sorted.push_back(std::abs(static_cast<double>(value)));
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    CHECK(sample.total() == 100000);
    CHECK(sampled.control.sampled == 100000);
    CHECK(sample.largest() == Approx(sorted[0]).epsilon(0.04));
    for (const size_t k : {500u, 1000u, 10000u, 60000u}) {
      CAPTURE(k);
      CHECK(sample.quantile(static_cast<double>(k)) == Approx(sorted[k]).epsilon(0.01));
      CHECK(sample.above(sorted[k]) == Approx(static_cast<double>(k)).epsilon(0.02));
      double sum = 0;
      double squares = 0;
      for (size_t i = 0; i < k; ++i) {
        sum += sorted[i] - sorted[k];
        squares += (sorted[i] - sorted[k]) * (sorted[i] - sorted[k]);
      }
      const double mean = sum / static_cast<double>(k);
      const auto excess = sample.excess(sorted[k]);
      CHECK(excess.count == Approx(static_cast<double>(k)).epsilon(0.02));
      CHECK(excess.mean == Approx(mean).epsilon(0.02));
      CHECK(excess.variance == Approx(squares / static_cast<double>(k) - mean * mean).epsilon(0.03));
    }
    double ln = 0;
    for (const double x : sorted) ln += std::log(x);
    CHECK(sample.meanLn() == Approx(ln / 100000).margin(1e-3));
    CHECK(sample.excess(0).mean == Approx(scale).epsilon(0.02));
  }
}

TEST_CASE("the variance of a few entries is that of what they are a sample of") {
  for (const std::vector<float>& values : {std::vector<float>{1, -3}, {5, 0.5F, -2}, {8, 1, 1, -4, 0}}) {
    CAPTURE(values.size());
    const Sampled sampled(values);
    CrewMemory sampleMemory;
    const Magnitudes sample(sampled.control, Crew(sampleMemory));
    const auto count = static_cast<double>(values.size());
    double sum = 0;
    double squares = 0;
    for (const float value : values) sum += std::abs(static_cast<double>(value));
    for (const float value : values) squares += std::pow(std::abs(static_cast<double>(value)) - sum / count, 2);
    const auto moments = sample.excess(0);
    CHECK(moments.count == count);
    CHECK(moments.mean == Approx(sum / count).epsilon(0.04));  // a bin is a 32nd of an octave wide
    CHECK(moments.variance == Approx(squares / (count - 1)).epsilon(0.08));
  }
}

TEST_CASE("zeros are counted, what is not finite is not") {
  std::vector<float> values(1000, 0.0F);
  values[1] = -2;
  values[2] = 2;
  values[3] = std::numeric_limits<float>::quiet_NaN();
  values[4] = -std::numeric_limits<float>::infinity();
  const Sampled sampled(values);
  CrewMemory sampleMemory;
  const Magnitudes sample(sampled.control, Crew(sampleMemory));
  CHECK(sample.total() == 998);
  CHECK(sample.nonZeros() == 2);
  CHECK(sample.above(1) == 2);
  CHECK(sample.quantile(3) == 0);
  CHECK(sample.excess(0).mean == Approx(2 * 2.03 / 998).epsilon(0.02));

  const Sampled nothing(std::vector<float>(10, -0.0F));
  CrewMemory noneMemory;
  const Magnitudes none(nothing.control, Crew(noneMemory));
  CHECK(none.nonZeros() == 0);
  CHECK(none.largest() == 0);
  CHECK(none.quantile(1) == 0);
  CHECK(none.excess(0).mean == 0);
  CHECK(none.excess(1).count == 0);
  CHECK(none.meanLn() == 0);
}

TEST_CASE("the sample is one of residual + scale * gradient, elsewhere in every step") {
  const uint64_t n = 6'000'011;
  std::vector<float> gradient(n);
  std::vector<float> residual(n);
  for (uint64_t i = 0; i < n; ++i) {
    gradient[i] = 1;
    residual[i] = i / 16 % 2 == 0 ? 1.0F : 5.0F;  // 3 or 7 with scale 2
  }
  double before = 0;
  for (uint64_t iteration = 0; iteration < 4; ++iteration) {
    const Sampled sampled(gradient, residual.data(), 2, iteration);
    CrewMemory sampleMemory;
    const Magnitudes sample(sampled.control, Crew(sampleMemory));
    CHECK(sample.total() == static_cast<double>(sampled.control.sampled));
    CHECK(sampled.control.sampled >= kSampleElements);
    CHECK(sampled.control.sampled <= 2 * kSampleElements);
    CHECK(sample.above(2.9) == sample.total());
    const double sevens = sample.above(6.9);
    CHECK(sevens == Approx(sample.total() / 2).epsilon(0.03));
    CHECK(sevens != before);
    before = sevens;
  }
}

}  // namespace
}  // namespace sparsecoll
