// SPDX-License-Identifier: Apache-2.0
#include "examples/common/training.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <stdexcept>
#include <system_error>

#include "examples/common/learner.h"
#include "examples/common/meter.h"
#include "examples/common/schedule.h"
#include "examples/common/stop.h"

namespace examples {

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

/// One rank's way through a training. Ranks agree on every decision by the sums they exchange.
class RankTraining {
 public:
  RankTraining(Run& run, const std::string& preset, size_t rank)
      : run_(run),
        settings_(run.settings),
        preset_(preset),
        rank_(rank),
        learner_(run.program, run.settings, {rank, run.world.ranks(), deviceName(rank)}, preset, run.world.comm(rank)),
        schedule_(run.settings, learner_.stepsPerEpoch()),
        tail_(std::max<size_t>(1, schedule_.steps() / 10)) {}

  TrainingEnd run(const std::optional<RunState>& resumed);

 private:
  std::string deviceName(size_t rank) const;
  std::vector<double> sum(std::vector<double> values) const {
    run_.world.sum(rank_, values);
    return values;
  }
  void resume(const RunState& state);
  bool oneStep(size_t step);
  fs::path dumpPath(size_t step) const;
  void test(size_t stepsDone);
  void save(size_t stepsDone);
  std::vector<uint64_t> gather(uint64_t mine) const;
  void checkEqual(uint64_t mine, const char* what) const;
  uint64_t checkReplicas() const;  // returns the fingerprint of all of them
  TrainingResult finish();

  Run& run_;
  const Settings& settings_;
  const std::string& preset_;
  size_t rank_;
  Learner learner_;
  Schedule schedule_;
  size_t tail_;  // steps that train_loss is the mean of
  Totals totals_;
  std::unique_ptr<Meter> meter_;  // rank 0 only
  std::vector<Metric> metrics_;
  size_t testedAt_ = 0;
};

std::string RankTraining::deviceName(size_t rank) const {
  if (settings_.device == "cpu") return "cpu";
  return "cuda:" + std::to_string(devicesOf(settings_.device, run_.world.ranks())[rank]);
}

TrainingEnd RankTraining::run(const std::optional<RunState>& resumed) {
  size_t step = 0;
  if (resumed) {
    resume(*resumed);
    step = resumed->step;
  }
  if (rank_ == 0) meter_ = std::make_unique<Meter>(run_, preset_, schedule_, learner_.samplesPerStep(), totals_);
  while (step < schedule_.steps()) {
    const bool stop = oneStep(step);
    ++step;
    const bool last = step == schedule_.steps();
    if (!last && !stop && schedule_.isDue(settings_.output.evalEvery, step)) test(step);
    if (!last && (stop || schedule_.isDue(settings_.output.checkpointEvery, step))) save(step);
    if (stop && !last) return {std::nullopt, step, StopSignal::caught()};
  }
  test(step);
  return {finish(), step, 0};
}

void RankTraining::resume(const RunState& state) {
  checkEqual(state.checksum, "checkpoint");
  learner_.load(Checkpoint(settings_.output.resumeDir).readRank(state, rank_));
  totals_ = state.totals;
}

fs::path RankTraining::dumpPath(size_t step) const {
  const auto& output = settings_.output;
  const auto& steps = output.dumpSteps;
  if (output.dumpDir.empty() || std::find(steps.begin(), steps.end(), step + 1) == steps.end()) return {};
  char name[64];
  std::snprintf(name, sizeof name, "step%06zu-rank%zu.npy", step + 1, rank_);
  return fs::path(output.dumpDir) / name;
}

// Returns whether the ranks have agreed to stop after this step.
bool RankTraining::oneStep(size_t step) {
  const auto start = Clock::now();
  const double rate = schedule_.learningRate(step);
  auto result = learner_.step(step, rate, dumpPath(step), meter_ != nullptr);
  const bool wish = StopSignal::caught() != 0 || step + 1 == settings_.output.stopAfter;
  const auto sums = sum({result.loss, wish ? 1.0 : 0.0});
  result.loss = sums[0] / static_cast<double>(run_.world.ranks());
  totals_.steps += 1;
  totals_.sentBytes += result.sentBytes;
  totals_.density += result.density;
  if (step + tail_ >= schedule_.steps()) totals_.tailLoss += result.loss / static_cast<double>(tail_);
  if (!meter_) return sums[1] > 0;
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  meter_->step(step, rate, result, seconds, meter_->isLineDue(step) ? learner_.residualNorm() : 0);
  return sums[1] > 0;
}

void RankTraining::test(size_t stepsDone) {
  if (testedAt_ == stepsDone) return;
  const auto start = Clock::now();
  metrics_ = learner_.evaluate(rank_, run_.world.ranks(), [this](std::vector<double>& v) { run_.world.sum(rank_, v); });
  testedAt_ = stepsDone;
  if (meter_) meter_->test(stepsDone, metrics_, std::chrono::duration<double>(Clock::now() - start).count());
}

// Files of all ranks first, then the state that names them.
void RankTraining::save(size_t stepsDone) {
  checkReplicas();
  const Checkpoint checkpoint(settings_.output.checkpointDir);
  const auto checksums = gather(checkpoint.writeRank(preset_, stepsDone, rank_, learner_.save()));
  if (rank_ == 0) {
    checkpoint.commit(describeRun(run_.program, settings_),
                      {run_.finished, preset_, stepsDone, totals_, checksums, /*checksum=*/0});
  }
  run_.world.barrier(rank_);
}

// Every rank's number. Halves of it, which a sum of doubles leaves as they are.
std::vector<uint64_t> RankTraining::gather(uint64_t mine) const {
  std::vector<double> halves(2 * run_.world.ranks());
  halves[2 * rank_] = static_cast<double>(mine >> 32);
  halves[2 * rank_ + 1] = static_cast<double>(mine & 0xffffffffu);
  halves = sum(std::move(halves));
  std::vector<uint64_t> all(run_.world.ranks());
  for (size_t rank = 0; rank < all.size(); ++rank)
    all[rank] = static_cast<uint64_t>(halves[2 * rank]) << 32 | static_cast<uint64_t>(halves[2 * rank + 1]);
  return all;
}

void RankTraining::checkEqual(uint64_t mine, const char* what) const {
  const auto all = gather(mine);
  for (size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    throw std::runtime_error(std::string("the ") + what + " of rank " + std::to_string(rank) +
                             " differs from that of rank 0");
  }
}

// The library promises the same bits on all ranks, and the optimiser is the same code on the same numbers.
uint64_t RankTraining::checkReplicas() const {
  const uint64_t mine = learner_.fingerprint();
  checkEqual(mine, "model");
  return mine;
}

TrainingResult RankTraining::finish() {
  TrainingResult result;
  char fingerprint[20];
  std::snprintf(fingerprint, sizeof fingerprint, "%016llx", static_cast<unsigned long long>(checkReplicas()));
  result.fingerprint = fingerprint;
  if (settings_.output.keepCheckpoint) save(schedule_.steps());
  result.preset = preset_;
  result.density = isDense(presetParams(preset_)) ? 1.0 : settings_.exchange.density;
  result.parameters = learner_.parameterCount();
  result.metrics = metrics_;
  result.epochs = schedule_.epochAfter(schedule_.steps());
  result.trainLoss = totals_.tailLoss;
  result.steps = totals_.steps;
  result.sentBytesPerStep = totals_.sentBytes / static_cast<double>(totals_.steps);
  result.achievedDensity = totals_.density / static_cast<double>(totals_.steps);
  if (meter_) meter_->report(result);
  return result;
}

}  // namespace

TrainingEnd train(Run& run, const std::string& preset, const std::optional<RunState>& resumed) {
  std::vector<TrainingEnd> ends(run.world.ranks());
  run.world.run([&](size_t rank) { ends[rank] = RankTraining(run, preset, rank).run(resumed); });
  return ends[run.world.localRanks().front()];
}

}  // namespace examples
