// SPDX-License-Identifier: Apache-2.0
// A directory from which a stopped run goes on: state.json, and for every rank a file of what it has learned. Each is
// written as a whole or not at all, and state.json holds a checksum of each and of itself: what was saved before stays
// until all of the new state is on the disk, and what has changed since is not taken for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
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
  std::vector<uint64_t> checksums;  // of the ranks' files
  uint64_t checksum = 0;            // of all this, where it was read
};

class Checkpoint {
 public:
  explicit Checkpoint(std::filesystem::path directory) : directory_(std::move(directory)) {}

  const std::filesystem::path& directory() const { return directory_; }

  /// What a rank has learned in so many steps. Returns the checksum. Errors: std::runtime_error with path and reason.
  uint64_t writeRank(const std::string& preset, size_t step, size_t rank, std::string_view bytes) const;

  /// Makes the state the one to resume from, once all ranks' files are there, and removes the files of other states,
  /// those of runs that were killed among them. run: see describeRun. Errors: as writeRank.
  void commit(const Json& run, const RunState& state) const;

  /// Errors: std::runtime_error (not there, damaged, or of a run that differs from this one: names the setting).
  RunState read(const Json& run) const;

  /// What writeRank has written. Errors: std::runtime_error (not there, damaged).
  std::string readRank(const RunState& state, size_t rank) const;

 private:
  std::filesystem::path rankFile(const std::string& preset, size_t step, size_t rank) const;

  std::filesystem::path directory_;
};

}  // namespace examples
