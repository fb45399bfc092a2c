// SPDX-License-Identifier: Apache-2.0
// The command line of sparsecoll-cnn.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace examples {

struct Options {
  std::string model = "resnet20";
  std::string dataDir;
  std::vector<std::string> presets{"micro"};
  double density = 0.01;
  bool errorFeedback = true;
  size_t ranks = 4;
  size_t batchSize = 32;  // images per rank and step
  size_t epochs = 3;
  size_t maxSteps = 0;  // 0: no limit
  double learningRate = 0.1;
  double momentum = 0.9;
  double weightDecay = 5e-4;
  double warmupEpochs = 0.5;
  uint64_t seed = 1;
  size_t trainLimit = 0;  // 0: all images
  size_t testLimit = 0;
  std::string jsonFile;
  std::string dumpDir;  // empty: gradients are not written
  std::vector<size_t> dumpSteps{10, 100, 1000};
};

/// The options, or the exit code with which the program should end (0 after --help).
struct ParsedOptions {
  std::optional<Options> options;
  int exitCode = 0;
};
ParsedOptions parseOptions(int argc, char** argv);

}  // namespace examples
