// SPDX-License-Identifier: Apache-2.0
#include "examples/common/settings.h"

#include <CLI/CLI.hpp>
#include <map>

namespace examples {

namespace {

constexpr double kHuge = 1e9;

void addTrainingOptions(CLI::App& app, Settings& s) {
  app.add_option("--ranks", s.ranks, "ranks, one thread each")->check(CLI::Range(1, 1024))->capture_default_str();
  app.add_option("--device", s.device, "where models and gradients are")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  app.add_option("--data-dir", s.dataDir, "directory of the data set");
  app.add_option("--batch-size", s.batchSize, "samples per rank and step")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  app.add_option("--epochs", s.epochs, "passes over the training data, may be a fraction")
      ->check(CLI::Range(1e-6, 1e6))
      ->capture_default_str();
  app.add_option("--max-steps", s.maxSteps, "end after this many steps, 0: no limit; schedules end there, too")
      ->capture_default_str();
  app.add_option("--seed", s.seed, "of weights, order of the data, augmentation, dropout and selection")
      ->capture_default_str();
  static const std::map<std::string, Sharding> kShardings{{"iid", Sharding::Iid}, {"contiguous", Sharding::Contiguous}};
  app.add_option("--sharding", s.sharding, "iid: samples dealt out anew each epoch; contiguous: a part for each rank")
      ->transform(CLI::CheckedTransformer(kShardings, CLI::ignore_case))
      ->default_str(s.sharding == Sharding::Iid ? "iid" : "contiguous");
}

void addRateOptions(CLI::App& app, LearningRateSettings& s) {
  app.add_option("--lr", s.peak, "peak learning rate")->check(CLI::Range(0.0, kHuge))->capture_default_str();
  app.add_option("--lr-schedule", s.schedule, "what follows the warm-up: half a cosine to 0, steps at the milestones")
      ->check(CLI::IsMember({"cosine", "steps", "constant"}))
      ->capture_default_str();
  app.add_option("--milestones", s.milestones, "epochs, with commas, at which steps multiplies by --gamma")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--gamma", s.gamma)->check(CLI::Range(0.0, kHuge))->capture_default_str();
  app.add_option("--warmup-epochs", s.warmupEpochs, "epochs (may be a fraction) in which the learning rate rises")
      ->check(CLI::Range(0.0, kHuge))
      ->capture_default_str();
  app.add_option("--warmup-from", s.warmupFrom, "share of --lr that it rises from")
      ->check(CLI::Range(0.0, kHuge))
      ->capture_default_str();
}

void addOptimizerOptions(CLI::App& app, OptimizerSettings& s) {
  app.add_option("--optimizer", s.name)->check(CLI::IsMember({"sgd", "adam"}))->capture_default_str();
  app.add_option("--momentum", s.momentum, "of SGD, or of the exchange where the recipe or the preset has it there")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_flag("--nesterov,!--no-nesterov", s.nesterov, "with --momentum, wherever that is applied");
  app.add_option("--weight-decay", s.weightDecay, "L2 penalty")->check(CLI::Range(0.0, kHuge))->capture_default_str();
  app.add_flag("--decay-vectors,!--no-decay-vectors", s.decayVectors, "also on biases and norms");
}

void addExchangeOptions(CLI::App& app, ExchangeSettings& s) {
  app.add_option("--preset", s.presets, "methods, with commas, or all: one training after the other, one table")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--compare", s.compare, "a method that is trained first and that the table compares with");
  app.add_option("--density", s.density, "share of the gradient that a step sends, in (0, 1]; not for dense")
      ->check(CLI::Range(1e-9, 1.0))
      ->capture_default_str();
  app.add_flag("--recipe,!--no-recipe", s.recipe,
               "sparse methods: a warm-up of the density, and SGD's momentum in front of the exchange")
      ->default_str(s.recipe ? "true" : "false");
  app.add_option("--density-schedule", s.densitySchedule, "densities of the first steps, with commas")
      ->delimiter(',')
      ->check(CLI::Range(1e-9, 1.0));
  app.add_option("--schedule-steps", s.scheduleSteps, "steps of each of them, 0: an epoch, or as the recipe says")
      ->capture_default_str();
  app.add_flag("--error-feedback,!--no-error-feedback", s.errorFeedback,
               "keep what is not sent for a later step, or drop it")
      ->default_str(s.errorFeedback ? "true" : "false");
  app.add_option("--vector-density", s.vectorDensity, "of biases and norms: 1 sends all of them; 0: as the others")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--clip-norm", s.clipNorm,
                 "clip the local gradient to this / sqrt(ranks) in the exchange, 0: never; one bucket, not dense")
      ->check(CLI::Range(0.0, kHuge))
      ->capture_default_str();
  app.add_flag("--over-nodes", s.overNodes,
               "sum densely inside nodes, and exchange only between them; nodes are hosts, or of SPARSECOLL_RANKS_PER_NODE");
  app.add_option("--bucket-mb", s.bucketMegabytes, "cut the gradient into buckets of this size, 0: one")
      ->check(CLI::Range(0.0, kHuge))
      ->capture_default_str();
  app.add_flag("--overlap", s.overlap, "exchange buckets while backward still runs");
}

// The steps of several trainings would have the same names.
void addOutputOptions(CLI::App& app, OutputSettings& s) {
  app.add_option("--json", s.jsonFile, "write settings and results to this file");
  app.add_option("--metrics", s.metricsFile, "write a line of JSON now and then and per test to this file");
  app.add_option("--log-every", s.logEvery, "steps per such line, 0: as many as keep it short")->capture_default_str();
  app.add_option("--eval-every", s.evalEvery, "epochs (may be a fraction) between tests, 0: only at the end")
      ->check(CLI::Range(0.0, kHuge))
      ->capture_default_str();
  app.add_option("--checkpoint", s.checkpointDir, "directory for checkpoints")->type_name("DIR");
  app.add_option("--checkpoint-every", s.checkpointEvery, "epochs between them, 0: only when stopped (Ctrl-C)")
      ->check(CLI::Range(0.0, kHuge))
      ->capture_default_str();
  app.add_option("--resume", s.resumeDir, "go on from the checkpoint there")->type_name("DIR");
  app.add_option("--stop-after", s.stopAfter, "write a checkpoint and stop after this step, 0: never")
      ->capture_default_str();
  auto* const directory = app.add_option("--dump-gradients", s.dumpDir,
                                         "write the gradient of every rank, as it is before the exchange, to "
                                         "DIR/step000010-rank0.npy and so on; with one --preset only")
                              ->type_name("DIR");
  app.add_option("--dump-steps", s.dumpSteps, "steps to write, with commas; the first step is 1")
      ->delimiter(',')
      ->check(CLI::Range(1, 1000000000))
      ->needs(directory)
      ->capture_default_str();
}

}  // namespace

void addCommonOptions(CLI::App& app, Settings& settings) {
  addTrainingOptions(app, settings);
  addRateOptions(app, settings.learningRate);
  addOptimizerOptions(app, settings.optimizer);
  addExchangeOptions(app, settings.exchange);
  addOutputOptions(app, settings.output);
}

void checkSettings(const Settings& settings) {
  const auto& output = settings.output;
  const bool several = settings.exchange.presets.size() + (settings.exchange.compare.empty() ? 0 : 1) > 1;
  if (!output.dumpDir.empty() && several) throw CLI::ValidationError("--dump-gradients", "takes one --preset");
  if (!output.dumpDir.empty() && settings.exchange.overlap)
    throw CLI::ValidationError("--dump-gradients", "the gradients are gone by then with --overlap");
}

}  // namespace examples
