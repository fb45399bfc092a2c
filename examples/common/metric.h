// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <string>

namespace examples {

/// A figure of merit on the test data.
struct Metric {
  std::string name;  // "test accuracy"
  double value;
  bool percent;            // value is a share, shown times 100
  double guessed = 0;      // what guessing reaches on average; 0: of no use as a measure
  double guessSpread = 0;  // standard deviation of guessing on this many samples
};

/// right of so many samples, each of one of so many classes.
inline Metric accuracy(double right, double samples, size_t classes) {
  const double guessed = 1.0 / static_cast<double>(classes);
  return {"test accuracy", right / samples, true, guessed, std::sqrt(guessed * (1 - guessed) / samples)};
}

/// Not better than guessing by more than three standard deviations.
inline bool isGuessing(const Metric& metric) {
  return metric.guessed > 0 && metric.value <= metric.guessed + 3 * metric.guessSpread;
}

}  // namespace examples
