// SPDX-License-Identifier: Apache-2.0
#include "examples/common/schedule.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace examples {

namespace {

constexpr double kPi = 3.14159265358979323846;

}  // namespace

Schedule::Schedule(const Settings& settings, size_t stepsPerEpoch)
    : rate_(settings.learningRate),
      stepsPerEpoch_(stepsPerEpoch),
      steps_(static_cast<size_t>(std::llround(settings.epochs * static_cast<double>(stepsPerEpoch)))),
      warmupSteps_(rate_.warmupEpochs * static_cast<double>(stepsPerEpoch)) {
  if (stepsPerEpoch == 0) throw std::runtime_error("fewer training samples than one step of all ranks needs");
  if (settings.maxSteps > 0) steps_ = std::min(steps_, settings.maxSteps);
  steps_ = std::max<size_t>(steps_, 1);
}

double Schedule::epochAfter(size_t steps) const {
  return static_cast<double>(steps) / static_cast<double>(stepsPerEpoch_);
}

double Schedule::learningRate(size_t step) const {
  const auto done = static_cast<double>(step);
  if (done < warmupSteps_) {
    const double risen = std::min(1.0, (done + 1.0) / warmupSteps_);
    return rate_.peak * (rate_.warmupFrom + (1.0 - rate_.warmupFrom) * risen);
  }
  if (rate_.schedule == "constant") return rate_.peak;
  if (rate_.schedule == "cosine") {
    const double rest = static_cast<double>(steps_) - warmupSteps_;
    return rate_.peak * 0.5 * (1.0 + std::cos(kPi * (done - warmupSteps_) / rest));
  }
  double rate = rate_.peak;
  for (const double milestone : rate_.milestones)
    if (done >= milestone * static_cast<double>(stepsPerEpoch_)) rate *= rate_.gamma;
  return rate;
}

bool Schedule::isDue(double everyEpochs, size_t stepsDone) const {
  if (everyEpochs <= 0 || stepsDone == 0) return false;
  const auto count = [&](size_t steps) { return std::floor(epochAfter(steps) / everyEpochs + 1e-9); };
  return count(stepsDone) > count(stepsDone - 1);
}

}  // namespace examples
