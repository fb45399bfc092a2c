// SPDX-License-Identifier: Apache-2.0
// What the program prints and writes at the end.
#pragma once

#include <string>
#include <vector>

#include "examples/cnn/options.h"
#include "examples/cnn/trainer.h"
#include "examples/common/cifar10.h"

namespace examples {

std::string formatResults(const std::vector<TrainingResult>& results);

/// {"context": {...}, "rows": [one per result]}. Does nothing without --json. Errors: std::runtime_error.
void writeJson(const Options& options, const Cifar10& data, const std::vector<TrainingResult>& results);

}  // namespace examples
