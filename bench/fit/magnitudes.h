// What a gradient's magnitudes are: counted one by one, and as a selector sees them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/control.h"
#include "selectors/magnitudes.h"

namespace bench {

// Of the finite magnitudes.
struct ExactMoments {
  double mean = 0;
  double deviation = 0;
  double skewness = 0;
  double kurtosis = 0;  // 9 for an exponential distribution
  double meanLn = 0;    // of those other than 0
};

class ExactMagnitudes {
 public:
  explicit ExactMagnitudes(std::span<const float> gradient);

  uint64_t n() const { return n_; }
  uint64_t finite() const { return sorted_.size(); }
  uint64_t nonZeros() const { return nonZeros_; }
  double largest() const { return sorted_.empty() ? 0 : static_cast<double>(sorted_.front()); }
  double smallest() const { return nonZeros_ == 0 ? 0 : static_cast<double>(sorted_[nonZeros_ - 1]); }  // above 0
  // The k-th largest; 0 if there are fewer.
  double topK(uint64_t k) const;
  // Finite entries that a selector with this threshold keeps: none for 0, which is no threshold.
  uint64_t kept(double threshold) const;
  ExactMoments moments() const;

 private:
  uint64_t n_;
  std::vector<float> sorted_;  // largest first
  uint64_t nonZeros_ = 0;
};

// A gradient, and the histogram of a sample of it, taken as in the first step of a reducer.
class Sample {
 public:
  explicit Sample(std::span<const float> gradient);
  Sample(Sample&&) = default;  // a copy's control block would point to the original's counts

  // Until the next one.
  sparsecoll::Magnitudes magnitudes() const { return {control_, sparsecoll::Crew(memory_)}; }
  const sparsecoll::Control& control() const { return control_; }  // without windows
  std::span<const float> gradient() const { return gradient_; }

 private:
  std::vector<float> gradient_;
  std::vector<uint32_t> counts_;
  sparsecoll::Control control_{};
  mutable sparsecoll::CrewMemory memory_;
};

}  // namespace bench
