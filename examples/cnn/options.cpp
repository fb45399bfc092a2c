// SPDX-License-Identifier: Apache-2.0
#include "examples/cnn/options.h"

#include <CLI/CLI.hpp>

namespace examples {

namespace {

constexpr double kHuge = 1e9;

void addTrainingOptions(CLI::App& app, Options& options) {
  app.add_option("--model", options.model, "resnet20 or resnet18")
      ->check(CLI::IsMember({"resnet20", "resnet18"}))
      ->capture_default_str();
  app.add_option("--ranks", options.ranks, "ranks, one thread each")->check(CLI::Range(1, 1024))->capture_default_str();
  app.add_option("--batch-size", options.batchSize, "images per rank and step (2 or more: batch norm)")
      ->check(CLI::Range(2, 65536))
      ->capture_default_str();
  app.add_option("--epochs", options.epochs, "passes over the training images")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  app.add_option("--max-steps", options.maxSteps, "end after this many steps, 0: no limit")->capture_default_str();
  app.add_option("--lr", options.learningRate, "peak learning rate")
      ->check(CLI::Range(0.0, kHuge))
      ->capture_default_str();
  app.add_option("--momentum", options.momentum, "momentum of SGD")->check(CLI::Range(0.0, 1.0))->capture_default_str();
  app.add_option("--weight-decay", options.weightDecay, "L2 penalty on all parameters")
      ->check(CLI::Range(0.0, kHuge))
      ->capture_default_str();
  app.add_option("--warmup-epochs", options.warmupEpochs,
                 "epochs (may be a fraction) in which the learning rate rises to --lr; then a cosine takes it to 0")
      ->check(CLI::Range(0.0, kHuge))
      ->capture_default_str();
  app.add_option("--seed", options.seed, "of weights, data order, augmentation and selection")->capture_default_str();
}

void addExchangeOptions(CLI::App& app, Options& options) {
  bool& errorFeedback = options.errorFeedback;
  app.add_option("--preset", options.presets, "methods, with commas: one training after the other, one table")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--density", options.density, "share of the gradient that a step sends, in (0, 1]; not for dense")
      ->check(CLI::Range(1e-9, 1.0))
      ->capture_default_str();
  app.add_flag_callback(
      "--no-error-feedback", [&errorFeedback] { errorFeedback = false; },
      "drop what is not sent instead of keeping it for a later step");
}

void addDataOptions(CLI::App& app, Options& options) {
  app.add_option("--data-dir", options.dataDir,
                 "directory of data_batch_*.bin and test_batch.bin; default: ../shared/data/cifar10, "
                 "or a synthetic set where that is missing");
  app.add_option("--train-limit", options.trainLimit, "use only the first N training images, 0: all")
      ->capture_default_str();
  app.add_option("--test-limit", options.testLimit, "use only the first N test images, 0: all")->capture_default_str();
  app.add_option("--json", options.jsonFile, "write settings and results to this file");
}

// The steps of several trainings would have the same names.
void addDumpOptions(CLI::App& app, Options& options) {
  auto* const directory = app.add_option("--dump-gradients", options.dumpDir,
                                         "write the gradient of every rank, as it is before the reduction, to "
                                         "DIR/step000010-rank0.npy and so on; with one --preset only")
                              ->type_name("DIR");
  app.add_option("--dump-steps", options.dumpSteps, "steps to write, with commas; the first step is 1")
      ->delimiter(',')
      ->check(CLI::Range(1, 1000000000))
      ->needs(directory)
      ->capture_default_str();
}

}  // namespace

ParsedOptions parseOptions(int argc, char** argv) {
  Options options;
  CLI::App app("Trains a residual network on CIFAR-10; in-process ranks average their gradients with libsparsecoll.");
  addTrainingOptions(app, options);
  addExchangeOptions(app, options);
  addDataOptions(app, options);
  addDumpOptions(app, options);
  try {
    app.parse(argc, argv);
    if (!options.dumpDir.empty() && options.presets.size() > 1)
      throw CLI::ValidationError("--dump-gradients", "takes one --preset");
  } catch (const CLI::ParseError& error) {
    return {std::nullopt, app.exit(error)};
  }
  return {options, 0};
}

}  // namespace examples
