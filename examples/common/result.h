// SPDX-License-Identifier: Apache-2.0
// What a training comes to, and how it is shown.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "examples/common/metric.h"
#include "examples/common/program.h"
#include "examples/common/settings.h"

namespace examples {

using Json = nlohmann::ordered_json;

/// Times, bytes and densities are means over the steps of rank 0; times leave out the first steps after a start, in
/// which LibTorch generates kernels and memory is touched first.
struct TrainingResult {
  std::string preset;
  double density = 0;  // asked for; 1 for a dense method
  size_t parameters = 0;
  std::string fingerprint;  // of the trained parameters: equal only if all their bits are
  size_t steps = 0;
  double epochs = 0;
  std::vector<Metric> metrics;
  double trainLoss = 0;  // mean over the last tenth of the steps and over the ranks
  double stepMs = 0;     // whole step, wall clock
  double dataMs = 0, forwardMs = 0, backwardMs = 0, syncMs = 0, updateMs = 0;
  double localMs = 0;     // selection and scatter in the library
  double exchangeMs = 0;  // exchange in the library, with the wait for slower ranks
  double sentBytesPerStep = 0;
  double achievedDensity = 0;
  double samplesPerSecond = 0;  // of all ranks together
};

Json toJson(const TrainingResult& result);
TrainingResult resultFromJson(const Json& json);

/// What a run is, as pairs for result files and for resuming: two runs with equal answers do the same steps.
Json describeRun(const Program& program, const Settings& settings);

/// A line for each training whose model tells classes apart no better than guessing does; "" if there is none.
std::string formatUnlearned(const std::vector<TrainingResult>& results);

/// One line per training. compare: the preset that the last columns compare with, or empty.
std::string formatResults(const std::vector<TrainingResult>& results, const std::string& compare);

/// {"context": {...}, "rows": [one per result]}. Does nothing without --json. Errors: std::runtime_error.
void writeResults(const Program& program, const Settings& settings, const std::vector<TrainingResult>& results);

}  // namespace examples
