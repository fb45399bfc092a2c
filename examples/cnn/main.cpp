// SPDX-License-Identifier: Apache-2.0
// sparsecoll-cnn: data-parallel training on CIFAR-10 whose ranks average their gradients with libsparsecoll.
#include <cstdio>
#include <exception>

#include "examples/cnn/options.h"
#include "examples/cnn/reducer.h"
#include "examples/cnn/replica.h"
#include "examples/cnn/report.h"
#include "examples/cnn/trainer.h"
#include "examples/common/cifar10.h"

namespace {

using namespace examples;

Cifar10 openData(const Options& options) {
  auto data = openCifar10(options.dataDir, options.seed);
  data.train.limit(options.trainLimit);
  data.test.limit(options.testLimit);
  std::fprintf(stderr, "data: %s, %zu training and %zu test images\n", data.source.c_str(), data.train.size(),
               data.test.size());
  return data;
}

void run(const Options& options) {
  tuneProcess();
  for (const auto& preset : options.presets) methodParams(preset, options);  // a wrong name ends the program here
  const auto data = openData(options);
  std::vector<TrainingResult> results;
  writeJson(options, data, results);  // a file that cannot be written, too
  for (const auto& preset : options.presets) {
    results.push_back(train(options, data, preset));
    writeJson(options, data, results);
  }
  std::fputs(formatResults(results).c_str(), stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const auto parsed = parseOptions(argc, argv);
  if (!parsed.options) return parsed.exitCode;
  try {
    run(*parsed.options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "sparsecoll-cnn: %s\n", error.what());
    return 1;
  }
  return 0;
}
