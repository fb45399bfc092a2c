#include "bench/fit/magnitudes.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "host/host_kernels.h"

namespace bench {

ExactMagnitudes::ExactMagnitudes(std::span<const float> gradient) : n_(gradient.size()) {
  for (const float x : gradient)
    if (std::isfinite(x)) sorted_.push_back(std::abs(x));
  std::sort(sorted_.begin(), sorted_.end(), std::greater<>());
  const auto zeros = std::lower_bound(sorted_.begin(), sorted_.end(), 0.0F, std::greater<>());
  nonZeros_ = static_cast<uint64_t>(zeros - sorted_.begin());
}

double ExactMagnitudes::topK(uint64_t k) const {
  return k == 0 || k > sorted_.size() ? 0 : static_cast<double>(sorted_[k - 1]);
}

uint64_t ExactMagnitudes::kept(double threshold) const {
  if (!(threshold > 0)) return 0;
  const auto passes = [=](float x) {
    return sparsecoll::Magnitude<float>::of(x) >= sparsecoll::keyOfThreshold(threshold, false);
  };
  return static_cast<uint64_t>(std::partition_point(sorted_.begin(), sorted_.end(), passes) - sorted_.begin());
}

ExactMoments ExactMagnitudes::moments() const {
  ExactMoments moments;
  if (sorted_.empty()) return moments;
  const auto count = static_cast<double>(sorted_.size());
  for (const float x : sorted_) moments.mean += static_cast<double>(x) / count;
  for (uint64_t i = 0; i < nonZeros_; ++i)
    moments.meanLn += std::log(static_cast<double>(sorted_[i])) / static_cast<double>(nonZeros_);
  double central[5] = {};
  for (const float x : sorted_)
    for (int power = 2; power <= 4; ++power)
      central[power] += std::pow(static_cast<double>(x) - moments.mean, power) / count;
  moments.deviation = std::sqrt(central[2]);
  if (central[2] == 0) return moments;
  moments.skewness = central[3] / std::pow(central[2], 1.5);
  moments.kurtosis = central[4] / (central[2] * central[2]);
  return moments;
}

Sample::Sample(std::span<const float> gradient)
    : gradient_(gradient.begin(), gradient.end()), counts_(sparsecoll::kHistogramBins) {
  sparsecoll::Window all{};
  all.end = gradient.size();
  control_.n = gradient.size();
  control_.ranks = 1;
  control_.histogram = counts_.data();
  control_.windowCount = 1;
  control_.windows = &all;
  sparsecoll::PassArgs args;
  args.gradient = gradient.data();
  args.n = gradient.size();
  args.control = &control_;
  sparsecoll::host::makeHostKernels()->sample(args, {});
  control_.windowCount = 0;
  control_.windows = nullptr;
}

}  // namespace bench
