// SPDX-License-Identifier: Apache-2.0
// What a trainer implements: a model, its data and how good it is. The loop, the exchange, the files are common.
#pragma once

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>
#include <torch/serialize.h>

#include <memory>
#include <string>
#include <vector>

#include "examples/common/metric.h"
#include "examples/common/program.h"
#include "examples/common/settings.h"

namespace examples {

/// One rank's model and its share of the data. Made while other ranks wait, from torch::manual_seed(settings.seed), so
/// that all ranks start with equal weights; used by its rank's thread. Errors: std::exception.
class Task {
 public:
  virtual ~Task() = default;

  virtual torch::nn::Module& module() = 0;

  virtual size_t stepsPerEpoch() const = 0;
  virtual size_t samplesPerStep() const = 0;  // of this rank

  /// Takes up the batch of a step of an epoch, both from 0. Steps come in order but may start anywhere (resume): what a
  /// batch holds depends on the arguments, the seed and the rank alone.
  virtual void prepare(size_t epoch, size_t step) = 0;

  /// The mean loss of that batch. Random numbers of the model come from noise(), which is seeded for every step.
  virtual torch::Tensor loss() = 0;

  /// Between backward and the exchange, for example to clip.
  virtual void afterBackward() {}

  /// Sums over this rank's part (part, part + parts, ...) of the test data, to be added up over the ranks.
  virtual std::vector<double> evaluate(size_t part, size_t parts) = 0;

  /// What the sums of all ranks come to. The first is the one that results are compared by.
  virtual std::vector<Metric> metrics(const std::vector<double>& sums) const = 0;

  /// The default is SGD or Adam as the settings say, without weight decay for biases and norms.
  virtual std::unique_ptr<torch::optim::Optimizer> makeOptimizer(const OptimizerSettings& settings);

  /// What a step hands to the next besides module and optimiser (hidden states).
  virtual void save(torch::serialize::OutputArchive&) const {}
  virtual void load(torch::serialize::InputArchive&) {}

  /// For dropout and the like: replicas in threads of one process share LibTorch's own generator, which would mix up
  /// their numbers.
  at::Generator& noise() { return noise_; }
  void useNoise(at::Generator generator) { noise_ = std::move(generator); }

 private:
  at::Generator noise_;
};

}  // namespace examples
