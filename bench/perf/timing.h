#pragma once

#include <cstdint>

#include "bench/perf/gradients.h"
#include "bench/perf/options.h"
#include "bench/perf/row.h"

namespace bench {

struct StepCounts {
  uint64_t warmup = 10;
  uint64_t timed = 20;
};

// Runs a method as a training loop does, with state from step to step, on a team of its own.
Timing timeSteps(const Case& what, const Gradients& gradients, const StepCounts& counts);

// A threshold that keeps about density * n entries a step: the one that exact top-k arrives at on the first rank's
// gradients.
double thresholdOfTopK(const Case& what, const Gradients& gradients, const StepCounts& counts);

}  // namespace bench
