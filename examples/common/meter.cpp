// SPDX-License-Identifier: Apache-2.0
#include "examples/common/meter.h"

#include <algorithm>

namespace examples {

namespace {

constexpr size_t kUntimedSteps = 3;

struct TimeField {
  const char* name;
  double StepTimes::*value;
};

constexpr TimeField kTimes[] = {{"data_ms", &StepTimes::data},         {"forward_ms", &StepTimes::forward},
                                {"backward_ms", &StepTimes::backward}, {"sync_ms", &StepTimes::sync},
                                {"update_ms", &StepTimes::update},     {"select_ms", &StepTimes::select},
                                {"exchange_ms", &StepTimes::exchange}, {"scatter_ms", &StepTimes::scatter}};

}  // namespace

void Meter::Sums::add(const StepResult& result, double stepSeconds) {
  ++steps;
  seconds += stepSeconds;
  loss += result.loss;
  sentBytes += result.sentBytes;
  density += result.density;
  for (const auto& field : kTimes) times.*field.value += result.times.*field.value;
}

Meter::Meter(Run& run, const std::string& preset, const Schedule& schedule, size_t samplesPerStep, const Totals& before)
    : run_(run),
      preset_(preset),
      schedule_(schedule),
      samplesPerStep_(static_cast<double>(samplesPerStep * run.world.ranks())),
      timedFrom_(std::min(before.steps + kUntimedSteps, schedule.steps() - 1)),
      interval_(metricInterval(run.settings.output.logEvery, schedule.steps())),
      progress_(preset, run.program.sampleUnit(), schedule.steps()) {
  Json line{{"event", "start"}, {"preset", preset}, {"steps_done", before.steps}, {"steps", schedule.steps()}};
  line["run"] = describeRun(run.program, run.settings);
  run_.log.write(line);
}

void Meter::step(size_t step, double learningRate, const StepResult& result, double seconds, double residualNorm) {
  if (step >= timedFrom_) timed_.add(result, seconds);
  line_.add(result, seconds);
  trained_ += seconds;
  const auto& speed = timed_.steps > 0 ? timed_ : line_;
  const double stepSeconds = speed.seconds / static_cast<double>(speed.steps);
  const size_t stepsLeft = schedule_.steps() * (run_.trainings - run_.finished.size()) - (step + 1);
  progress_.update({step + 1, result.loss, samplesPerStep_ / stepSeconds, stepSeconds * static_cast<double>(stepsLeft),
                    static_cast<uint64_t>(result.sentBytes)});
  if (isLineDue(step)) writeLine(step + 1, learningRate, residualNorm);
}

void Meter::writeLine(size_t stepsDone, double learningRate, double residualNorm) {
  const auto count = static_cast<double>(line_.steps);
  Json line{{"event", "step"},     {"preset", preset_},
            {"step", stepsDone},   {"epoch", schedule_.epochAfter(stepsDone)},
            {"seconds", trained_}, {"loss", line_.loss / count},
            {"lr", learningRate},  {"step_ms", line_.seconds / count * 1e3}};
  for (const auto& field : kTimes) line[field.name] = line_.times.*field.value / count * 1e3;
  line["sent_bytes"] = line_.sentBytes / count;
  line["achieved_density"] = line_.density / count;
  line["residual_norm"] = residualNorm;
  run_.log.write(line);
  line_ = {};
}

void Meter::test(size_t stepsDone, const std::vector<Metric>& metrics, double seconds) {
  Json line{{"event", "test"},     {"preset", preset_},
            {"step", stepsDone},   {"epoch", schedule_.epochAfter(stepsDone)},
            {"seconds", trained_}, {"test_seconds", seconds}};
  for (const auto& metric : metrics) {
    auto name = metric.name;
    std::replace(name.begin(), name.end(), ' ', '_');
    line[name] = metric.value;
  }
  run_.log.write(line);
}

void Meter::report(TrainingResult& result) const {
  const double perStep = 1e3 / static_cast<double>(std::max<size_t>(timed_.steps, 1));
  result.stepMs = timed_.seconds * perStep;
  result.dataMs = timed_.times.data * perStep;
  result.forwardMs = timed_.times.forward * perStep;
  result.backwardMs = timed_.times.backward * perStep;
  result.syncMs = timed_.times.sync * perStep;
  result.updateMs = timed_.times.update * perStep;
  result.localMs = (timed_.times.select + timed_.times.scatter) * perStep;
  result.exchangeMs = timed_.times.exchange * perStep;
  if (timed_.seconds > 0)
    result.samplesPerSecond = samplesPerStep_ * static_cast<double>(timed_.steps) / timed_.seconds;
}

}  // namespace examples
