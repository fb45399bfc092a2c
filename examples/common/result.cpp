// SPDX-License-Identifier: Apache-2.0
#include "examples/common/result.h"

#include <sparsecoll/sparsecoll.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <thread>

#include "bench/common/output_file.h"
#include "examples/common/progress.h"
#include "examples/common/table.h"

namespace examples {

namespace {

struct Field {
  const char* name;
  double TrainingResult::*value;
};

constexpr std::array<Field, 14> kNumbers{{{"density", &TrainingResult::density},
                                          {"epochs", &TrainingResult::epochs},
                                          {"train_loss", &TrainingResult::trainLoss},
                                          {"step_ms", &TrainingResult::stepMs},
                                          {"data_ms", &TrainingResult::dataMs},
                                          {"forward_ms", &TrainingResult::forwardMs},
                                          {"backward_ms", &TrainingResult::backwardMs},
                                          {"sync_ms", &TrainingResult::syncMs},
                                          {"update_ms", &TrainingResult::updateMs},
                                          {"local_ms", &TrainingResult::localMs},
                                          {"exchange_ms", &TrainingResult::exchangeMs},
                                          {"sent_bytes_per_step", &TrainingResult::sentBytesPerStep},
                                          {"achieved_density", &TrainingResult::achievedDensity},
                                          {"samples_per_second", &TrainingResult::samplesPerSecond}}};

std::string formatMetric(const Metric& metric) {
  return metric.percent ? formatFixed(metric.value * 100.0, 2) + " %" : formatFixed(metric.value, 4);
}

std::string formatGap(const Metric& metric, const Metric& reference) {
  const double gap = metric.value - reference.value;
  std::string text(gap < 0 ? "" : "+");
  text += metric.percent ? formatFixed(gap * 100.0, 2) : formatFixed(gap, 4);
  return text;
}

}  // namespace

Json toJson(const TrainingResult& result) {
  Json json{{"preset", result.preset}, {"parameters", result.parameters}, {"steps", result.steps}};
  json["fingerprint"] = result.fingerprint;
  for (const auto& field : kNumbers) json[field.name] = result.*field.value;
  json["metrics"] = Json::array();
  for (const auto& metric : result.metrics)
    json["metrics"].push_back({{"name", metric.name},
                               {"value", metric.value},
                               {"percent", metric.percent},
                               {"guessed", metric.guessed},
                               {"guess_spread", metric.guessSpread}});
  return json;
}

TrainingResult resultFromJson(const Json& json) {
  TrainingResult result;
  result.preset = json.at("preset");
  result.parameters = json.at("parameters");
  result.steps = json.at("steps");
  result.fingerprint = json.at("fingerprint");
  for (const auto& field : kNumbers) result.*field.value = json.at(field.name);
  for (const auto& metric : json.at("metrics"))
    result.metrics.push_back({metric.at("name"), metric.at("value"), metric.at("percent"), metric.value("guessed", 0.0),
                              metric.value("guess_spread", 0.0)});
  return result;
}

Json describeRun(const Program& program, const Settings& s) {
  Json run{{"program", program.name()}};
  for (const auto& [name, text] : program.describe()) run[name] = text;
  run.update({{"ranks", s.ranks},
              {"device", s.device},
              {"batch_size", s.batchSize},
              {"epochs", s.epochs},
              {"max_steps", s.maxSteps},
              {"seed", s.seed},
              {"sharding", s.sharding == Sharding::Iid ? "iid" : "contiguous"},
              {"lr", s.learningRate.peak},
              {"lr_schedule", s.learningRate.schedule},
              {"warmup_epochs", s.learningRate.warmupEpochs},
              {"warmup_from", s.learningRate.warmupFrom},
              {"milestones", s.learningRate.milestones},
              {"gamma", s.learningRate.gamma}});
  run.update({{"optimizer", s.optimizer.name},
              {"momentum", s.optimizer.momentum},
              {"nesterov", s.optimizer.nesterov},
              {"weight_decay", s.optimizer.weightDecay},
              {"decay_vectors", s.optimizer.decayVectors},
              {"presets", s.exchange.presets},
              {"compare", s.exchange.compare},
              {"density", s.exchange.density},
              {"recipe", s.exchange.recipe},
              {"density_schedule", s.exchange.densitySchedule},
              {"schedule_steps", s.exchange.scheduleSteps},
              {"error_feedback", s.exchange.errorFeedback},
              {"vector_density", s.exchange.vectorDensity},
              {"clip_norm", s.exchange.clipNorm},
              {"over_nodes", s.exchange.overNodes},
              {"bucket_mb", s.exchange.bucketMegabytes},
              {"op", "avg"}});
  return run;
}

std::string formatResults(const std::vector<TrainingResult>& results, const std::string& compare) {
  if (results.empty()) return "";
  const TrainingResult* reference = nullptr;
  for (const auto& result : results)
    if (result.preset == compare) reference = &result;
  std::vector<std::string> header{"preset", "density"};
  for (const auto& metric : results[0].metrics) header.push_back(metric.name);
  for (const char* name : {"step time", "local time", "exchange time", "sent per rank and step", "achieved density"})
    header.emplace_back(name);
  if (reference) {
    header.push_back("gap to " + compare);
    header.push_back("sent / " + compare);
  }
  std::vector<std::vector<std::string>> rows;
  for (const auto& result : results) {
    auto& row = rows.emplace_back(std::vector<std::string>{result.preset, formatFixed(result.density, 4)});
    for (const auto& metric : result.metrics) row.push_back(formatMetric(metric));
    row.push_back(formatFixed(result.stepMs, 2) + " ms");
    row.push_back(formatFixed(result.localMs, 3) + " ms");
    row.push_back(formatFixed(result.exchangeMs, 3) + " ms");
    row.push_back(formatBytes(result.sentBytesPerStep));
    row.push_back(formatFixed(result.achievedDensity, 5));
    if (!reference) continue;
    row.push_back(formatGap(result.metrics.at(0), reference->metrics.at(0)));
    row.push_back(formatFixed(result.sentBytesPerStep / reference->sentBytesPerStep, 4));
  }
  return formatTable(header, rows);
}

std::string formatUnlearned(const std::vector<TrainingResult>& results) {
  std::string text;
  for (const auto& result : results) {
    const Metric& metric = result.metrics.at(0);
    if (!isGuessing(metric)) continue;
    text += result.preset + " did not learn: " + metric.name + " " + formatMetric(metric) + ", guessing gives " +
            formatFixed(metric.guessed * 100.0, 2) + " +- " + formatFixed(metric.guessSpread * 100.0, 2) + " %\n";
  }
  return text;
}

void writeResults(const Program& program, const Settings& settings, const std::vector<TrainingResult>& results) {
  if (settings.output.jsonFile.empty()) return;
  Json context{{"library", Json::parse(sparsecollGetBuildInfo())}, {"processors", std::thread::hardware_concurrency()}};
  context.update(describeRun(program, settings));
  Json document{{"context", context}, {"rows", Json::array()}};
  for (const auto& result : results) {
    auto row = toJson(result);
    row.erase("metrics");
    for (const auto& metric : result.metrics) {
      auto name = metric.name;
      std::replace(name.begin(), name.end(), ' ', '_');
      row[name] = metric.value;
    }
    for (const char* shared : {"ranks", "batch_size", "seed", "error_feedback"}) row[shared] = context[shared];
    document["rows"].push_back(row);
  }
  bench::OutputFile(settings.output.jsonFile).write(document.dump(2) + "\n");
}

}  // namespace examples
