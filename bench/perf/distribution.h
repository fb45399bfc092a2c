// What gradients look like: the magnitudes of a distribution, or recorded gradients.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/common/recording.h"

namespace bench {

class Distribution {
 public:
  // normal, laplace, powerlaw:EXPONENT, file:PATH (see bench/common/recording.h). Throws UsageError, EnvironmentError.
  explicit Distribution(const std::string& text);

  // Entry i of all that there is: of an endless stream of random numbers, or of the files, from their start again at
  // their end.
  double at(uint64_t seed, uint64_t i) const;
  // Entries differ in more than noise: where in the vector they are matters.
  bool hasPlaces() const { return recording_.files != 0; }
  // Of a gradient, unless another length is asked for: that of the first file.
  uint64_t length() const { return hasPlaces() ? recording_.first : kUsualLength; }

 private:
  static constexpr uint64_t kUsualLength = 1000000;

  void tabulate();
  double magnitude(uint64_t random) const;

  std::function<double(double)> exceeded_;  // the magnitude that is exceeded with this probability
  std::vector<double> table_;               // of it, at equal steps from probability 1 down
  Recording recording_;
};

}  // namespace bench
