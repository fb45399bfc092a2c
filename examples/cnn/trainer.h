// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "examples/cnn/options.h"
#include "examples/common/cifar10.h"

namespace examples {

/// What a training ends with. Times, bytes and densities are means over the steps of rank 0; times leave out the first
/// steps, in which oneDNN generates its kernels.
struct TrainingResult {
  std::string preset;
  double density;  // asked for; 1 for a dense method
  size_t parameters;
  size_t steps;
  double epochs;
  double testAccuracy;  // 0 to 1
  double trainLoss;     // mean over the last tenth of the steps and over the ranks
  double stepMs;        // whole step, wall clock
  double localMs;       // selection and scatter in the library
  double exchangeMs;    // exchange in the library, with the wait for slower ranks
  double sentBytesPerStep;
  double achievedDensity;
  double imagesPerSecond;  // of all ranks together
};

/// Trains one model from the seed with the named method, shows a progress bar on stderr, tests rank 0's model.
/// Errors: std::exception; every rank has ended by then. Among them: the ranks' parameters differ in a bit.
TrainingResult train(const Options& options, const Cifar10& data, const std::string& preset);

}  // namespace examples
