// Everything that is said about one gradient.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/fit/estimators.h"
#include "bench/fit/magnitudes.h"

namespace bench {

struct Estimate {
  const char* name;
  double threshold;
  uint64_t kept;
};

struct AtDensity {
  double density;
  uint64_t k;
  double topK;  // threshold of exact top-k
  std::vector<Estimate> estimates;
};

struct Analysis {
  // Throws EnvironmentError.
  Analysis(const std::string& file, const std::vector<double>& densities);

  std::string file;
  ExactMagnitudes exact;
  Sample sample;
  ExactMoments moments;
  std::optional<Fits> fits;
  std::vector<AtDensity> densities;

 private:
  Analysis(const std::string& name, const std::vector<float>& gradient, const std::vector<double>& wanted);
};

}  // namespace bench
