// SPDX-License-Identifier: Apache-2.0
#include "examples/cnn/report.h"

#include <sparsecoll/sparsecoll.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <thread>

#include "examples/common/progress.h"
#include "examples/common/table.h"

namespace examples {

namespace {

using Json = nlohmann::ordered_json;

Json contextOf(const Options& options, const Cifar10& data) {
  return {{"program", "sparsecoll-cnn"},
          {"library", Json::parse(sparsecollGetBuildInfo())},
          {"processors", std::thread::hardware_concurrency()},
          {"model", options.model},
          {"data", data.source},
          {"synthetic", data.synthetic},
          {"train_images", data.train.size()},
          {"test_images", data.test.size()},
          {"ranks", options.ranks},
          {"batch_size", options.batchSize},
          {"lr", options.learningRate},
          {"momentum", options.momentum},
          {"weight_decay", options.weightDecay},
          {"warmup_epochs", options.warmupEpochs},
          {"error_feedback", options.errorFeedback},
          {"op", "avg"}};
}

Json rowOf(const Options& options, const TrainingResult& result) {
  return {{"preset", result.preset},
          {"model", options.model},
          {"parameters", result.parameters},
          {"ranks", options.ranks},
          {"batch_size", options.batchSize},
          {"density", result.density},
          {"error_feedback", options.errorFeedback},
          {"seed", options.seed},
          {"steps", result.steps},
          {"epochs", result.epochs},
          {"test_accuracy", result.testAccuracy},
          {"train_loss", result.trainLoss},
          {"step_ms", result.stepMs},
          {"local_ms", result.localMs},
          {"exchange_ms", result.exchangeMs},
          {"sent_bytes_per_step", result.sentBytesPerStep},
          {"achieved_density", result.achievedDensity},
          {"images_per_second", result.imagesPerSecond}};
}

}  // namespace

std::string formatResults(const std::vector<TrainingResult>& results) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& result : results) {
    rows.push_back({result.preset, formatFixed(result.density, 4), formatFixed(result.testAccuracy * 100.0, 2) + " %",
                    formatFixed(result.stepMs, 2) + " ms", formatFixed(result.localMs, 3) + " ms",
                    formatFixed(result.exchangeMs, 3) + " ms", formatBytes(result.sentBytesPerStep),
                    formatFixed(result.achievedDensity, 5)});
  }
  return formatTable({"preset", "density", "test accuracy", "step time", "local time", "exchange time",
                      "sent per rank and step", "achieved density"},
                     rows);
}

void writeJson(const Options& options, const Cifar10& data, const std::vector<TrainingResult>& results) {
  if (options.jsonFile.empty()) return;
  Json document{{"context", contextOf(options, data)}, {"rows", Json::array()}};
  for (const auto& result : results) document["rows"].push_back(rowOf(options, result));
  std::ofstream stream(options.jsonFile);
  stream << document.dump(2) << '\n';
  if (!stream.flush()) throw std::runtime_error("cannot write " + options.jsonFile);
}

}  // namespace examples
