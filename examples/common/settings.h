// SPDX-License-Identifier: Apache-2.0
// What all trainers can be told on the command line. A trainer changes defaults before the options are made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace examples {

enum class Sharding {
  Iid,        // one permutation of all samples per epoch, dealt out to the ranks
  Contiguous  // every rank has its own part of the data, in the order of the files
};

struct LearningRateSettings {
  std::string schedule = "cosine";  // cosine: half a cosine down to 0; steps: times gamma at milestones; constant
  double peak = 0.1;
  double warmupEpochs = 0.5;  // a linear rise
  double warmupFrom = 0.0;    // share of the peak that it starts at
  std::vector<double> milestones;
  double gamma = 0.1;
};

struct OptimizerSettings {
  std::string name = "sgd";  // or adam
  double momentum = 0.9;
  bool nesterov = false;
  double weightDecay = 5e-4;
  bool decayVectors = false;  // also biases and norms, which published trainers spare
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
};

struct ExchangeSettings {
  // Near the best in every table of docs/convergence.md; in that of the CNN dgc is, which its trainer takes instead.
  std::vector<std::string> presets{"topka"};
  std::string compare;  // a preset that runs first, for the table; empty: none
  double density = 0.01;
  bool recipe = true;  // of sparsecoll::torch::Options; for SGD with its momentum
  std::vector<double> densitySchedule;
  size_t scheduleSteps = 0;  // of each; 0: an epoch
  bool errorFeedback = true;
  double vectorDensity = 0;  // see sparsecoll::torch::Options
  double clipNorm = 0;
  bool overNodes = false;
  double bucketMegabytes = 0;
  bool overlap = false;
};

struct OutputSettings {
  std::string jsonFile;     // settings and results
  std::string metricsFile;  // one line of JSON every logEvery steps and per test
  size_t logEvery = 0;      // 0: as often as keeps the file under kMetricLines
  double evalEvery = 1;     // epochs; 0: only at the end
  std::string checkpointDir;
  double checkpointEvery = 0;  // epochs; 0: only when stopped
  std::string resumeDir;
  bool keepCheckpoint = false;  // of a finished training, too
  size_t stopAfter = 0;         // as if by Ctrl-C; 0: never
  std::string dumpDir;
  std::vector<size_t> dumpSteps{10, 100, 1000};
};

struct Settings {
  size_t ranks = 4;
  std::string device = "cpu";
  std::string dataDir;
  size_t batchSize = 32;  // samples per rank and step
  double epochs = 3;
  size_t maxSteps = 0;  // 0: no limit
  uint64_t seed = 1;
  Sharding sharding = Sharding::Iid;
  LearningRateSettings learningRate;
  OptimizerSettings optimizer;
  ExchangeSettings exchange;
  OutputSettings output;
};

void addCommonOptions(CLI::App& app, Settings& settings);

/// What options exclude each other that CLI11 cannot know. Errors: CLI::ParseError.
void checkSettings(const Settings& settings);

}  // namespace examples
