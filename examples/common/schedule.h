// SPDX-License-Identifier: Apache-2.0
// How long a training is, and the learning rate of each of its steps.
#pragma once

#include <cstddef>

#include "examples/common/settings.h"

namespace examples {

class Schedule {
 public:
  /// Errors: std::runtime_error (not one step).
  Schedule(const Settings& settings, size_t stepsPerEpoch);

  size_t steps() const { return steps_; }
  size_t stepsPerEpoch() const { return stepsPerEpoch_; }
  double epochAfter(size_t steps) const;

  /// A linear rise over the warm-up, then what the settings say.
  double learningRate(size_t step) const;

  /// Whether something that happens every so many epochs (0: never) is due after this many steps.
  bool isDue(double everyEpochs, size_t stepsDone) const;

 private:
  LearningRateSettings rate_;
  size_t stepsPerEpoch_;
  size_t steps_;
  double warmupSteps_;
};

}  // namespace examples
