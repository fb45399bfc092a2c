// SPDX-License-Identifier: Apache-2.0
// One trainer as the common main sees it, without LibTorch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "examples/common/settings.h"

namespace examples {

class Task;

/// Which copy of the model a task is.
struct Replica {
  size_t rank;
  size_t ranks;
  std::string device;  // for torch::Device: "cpu", "cuda:1"
};

class Program {
 public:
  virtual ~Program() = default;

  virtual std::string name() const = 0;     // "sparsecoll-cnn"
  virtual std::string summary() const = 0;  // one sentence for --help

  /// Adds the trainer's own options and changes the common defaults.
  virtual void addOptions(CLI::App& app, Settings& settings) = 0;

  /// Reads the data, once a process, after the command line is known. Prints where it comes from to stderr.
  virtual void open(const Settings& settings) = 0;

  /// Model and data as pairs of name and text, for results and for the check that a resumed run is the same one.
  virtual std::vector<std::pair<std::string, std::string>> describe() const = 0;

  /// One rank's model; see Task. The data stays the program's, which outlives the task. Shared, so that who hands it on
  /// need not see LibTorch.
  virtual std::shared_ptr<Task> makeTask(const Settings& settings, const Replica& replica) const = 0;

  /// What the speed is counted in.
  virtual std::string sampleUnit() const { return "samples"; }
};

/// The whole trainer: command line, one training per preset, table and files. Returns the exit code.
int runProgram(int argc, char** argv, Program& program);

}  // namespace examples
