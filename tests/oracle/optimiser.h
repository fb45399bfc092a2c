// SGD's momentum of what a dense sum brings, in double.
#pragma once

#include <cmath>
#include <vector>

#include "tests/support/elements.h"

namespace sparsecoll::test {

class Optimiser {
 public:
  Optimiser(uint64_t n, double momentum, bool nesterov) : momentum_(momentum), nesterov_(nesterov), velocity_(n) {}

  std::vector<double> step(const std::vector<Elements>& gradients) {
    std::vector<double> update(velocity_.size());
    for (size_t i = 0; i < update.size(); ++i) {
      double sum = 0;
      for (const Elements& gradient : gradients) sum += gradient[i];
      velocity_[i] = momentum_ * velocity_[i] + sum;
      update[i] = nesterov_ ? momentum_ * velocity_[i] + sum : velocity_[i];
    }
    return update;
  }

 private:
  double momentum_;
  bool nesterov_;
  std::vector<double> velocity_;
};

inline double worst(const Elements& out, const std::vector<double>& expected) {
  double most = 0;
  for (size_t i = 0; i < expected.size(); ++i) most = std::max(most, std::abs(out[i] - expected[i]));
  return most;
}

}  // namespace sparsecoll::test
