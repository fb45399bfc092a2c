// SPDX-License-Identifier: Apache-2.0
// What rank 0 shows and writes while it trains.
#pragma once

#include <string>
#include <vector>

#include "examples/common/checkpoint.h"
#include "examples/common/learner.h"
#include "examples/common/progress.h"
#include "examples/common/schedule.h"
#include "examples/common/training.h"

namespace examples {

class Meter {
 public:
  Meter(Run& run, const std::string& preset, const Schedule& schedule, size_t samplesPerStep, const Totals& before);

  /// Whether the next line is written after this step, which counts from 0.
  bool isLineDue(size_t step) const { return (step + 1) % interval_ == 0 || step + 1 == schedule_.steps(); }

  /// residualNorm: looked at where a line is due.
  void step(size_t step, double learningRate, const StepResult& result, double seconds, double residualNorm);
  void test(size_t stepsDone, const std::vector<Metric>& metrics, double seconds);

  /// Fills in the times.
  void report(TrainingResult& result) const;

 private:
  struct Sums {
    size_t steps = 0;
    double seconds = 0, loss = 0, sentBytes = 0, density = 0;
    StepTimes times;

    void add(const StepResult& result, double stepSeconds);
  };
  void writeLine(size_t stepsDone, double learningRate, double residualNorm);

  Run& run_;
  std::string preset_;
  const Schedule& schedule_;
  double samplesPerStep_;  // of all ranks
  size_t timedFrom_;       // steps before that are not timed
  size_t interval_;
  Progress progress_;
  Sums timed_, line_;
  double trained_ = 0;  // seconds in steps
};

}  // namespace examples
