// SPDX-License-Identifier: Apache-2.0
// A directory from which a stopped run goes on: state.json, and for every rank what it has learned.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "examples/common/result.h"

namespace examples {

/// What a training adds up on the way to its result; a resumed one goes on with it.
struct Totals {
  size_t steps = 0;
  double sentBytes = 0;
  double density = 0;
  double tailLoss = 0;
};

/// Where a run stands: the trainings that are done and the one that is not.
struct RunState {
  std::vector<TrainingResult> finished;
  std::string preset;
  size_t step = 0;  // steps done
  Totals totals;
};

class Checkpoint {
 public:
  explicit Checkpoint(std::filesystem::path directory) : directory_(std::move(directory)) {}

  const std::filesystem::path& directory() const { return directory_; }
  std::filesystem::path rankFile(const std::string& preset, size_t step, size_t rank) const;

  /// Makes the state the one to resume from, once all ranks' files are there. run: see describeRun.
  void commit(const Json& run, const RunState& state) const;

  /// Errors: std::runtime_error (not there, damaged, or of a run that differs from this one: names the setting).
  RunState read(const Json& run) const;

 private:
  std::filesystem::path directory_;
};

}  // namespace examples
