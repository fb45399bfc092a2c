// SPDX-License-Identifier: Apache-2.0
// One training with one method, on all ranks of this process.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "examples/common/checkpoint.h"
#include "examples/common/metrics_log.h"
#include "examples/common/program.h"
#include "examples/common/world.h"

namespace examples {

/// What the trainings of a run share.
struct Run {
  const Program& program;
  const Settings& settings;
  const World& world;
  MetricsLog& log;
  size_t trainings;  // of the whole run
  std::vector<TrainingResult> finished;
};

struct TrainingEnd {
  std::optional<TrainingResult> result;  // none: it was stopped, and a checkpoint was written
  size_t steps = 0;
  int signal = 0;  // that stopped it
};

/// Trains from the seed, or from where state says, with a progress bar on stderr, and tests. result is rank 0's, so it
/// is empty of numbers in a process without rank 0. Errors: std::exception; every rank has ended by then. Among them:
/// the ranks' parameters differ in a bit.
TrainingEnd train(Run& run, const std::string& preset, const std::optional<RunState>& resumed);

}  // namespace examples
