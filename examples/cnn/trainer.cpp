// SPDX-License-Identifier: Apache-2.0
#include "examples/cnn/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

#include "examples/cnn/reducer.h"
#include "examples/cnn/replica.h"
#include "examples/common/cifar10_batches.h"
#include "examples/common/npy.h"
#include "examples/common/progress.h"

namespace examples {

namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kUntimedSteps = 3;
constexpr size_t kTestBatch = 250;
constexpr double kPi = 3.14159265358979323846;

/// Runs body(rank) on one thread a rank and waits for all. The first exception is thrown again; before that onFailure
/// is called on the failing rank so that the others do not wait for it.
void runRanks(size_t ranks, const std::function<void(size_t)>& body, const std::function<void(size_t)>& onFailure) {
  std::mutex mutex;
  std::string firstFailure;
  const auto guarded = [&](size_t rank) {
    try {
      useOneThreadPerRank();
      body(rank);
    } catch (const std::exception& error) {
      const std::lock_guard lock(mutex);
      if (firstFailure.empty()) firstFailure = "rank " + std::to_string(rank) + ": " + error.what();
      onFailure(rank);
    }
  };
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < ranks; ++rank) threads.emplace_back(guarded, rank);
  for (auto& thread : threads) thread.join();
  if (!firstFailure.empty()) throw std::runtime_error(firstFailure);
}

struct Schedule {
  size_t stepsPerEpoch;
  size_t steps;
  double warmupSteps;
  double peak;

  Schedule(const Options& options, size_t images)
      : stepsPerEpoch(examples::stepsPerEpoch(images, options.ranks, options.batchSize)),
        steps(stepsPerEpoch * options.epochs),
        warmupSteps(options.warmupEpochs * static_cast<double>(stepsPerEpoch)),
        peak(options.learningRate) {
    if (steps == 0) throw std::runtime_error("fewer training images than one step of all ranks needs");
    if (options.maxSteps > 0) steps = std::min(steps, options.maxSteps);
  }

  /// A linear rise over the warm-up, then half a cosine down to 0 at the end of the run.
  double learningRate(size_t step) const {
    const auto done = static_cast<double>(step);
    if (done < warmupSteps) return peak * std::min(1.0, (done + 1.0) / warmupSteps);
    return peak * 0.5 * (1.0 + std::cos(kPi * (done - warmupSteps) / (static_cast<double>(steps) - warmupSteps)));
  }
};

/// Writes gradients of the steps that were asked for. Any number of ranks at once.
class GradientDump {
 public:
  explicit GradientDump(const Options& options) : directory_(options.dumpDir), steps_(options.dumpSteps) {
    if (!directory_.empty()) std::filesystem::create_directories(directory_);
  }

  /// step counts from 1.
  void write(size_t step, size_t rank, Replica& replica) const {
    if (directory_.empty() || std::find(steps_.begin(), steps_.end(), step) == steps_.end()) return;
    char name[64];
    std::snprintf(name, sizeof name, "step%06zu-rank%zu.npy", step, rank);
    writeNpy(directory_ / name, replica.gradient(), replica.parameterCount());
  }

 private:
  std::filesystem::path directory_;
  const std::vector<size_t>& steps_;
};

/// Adds up what rank 0 sees.
class Meter {
 public:
  Meter(const std::string& label, size_t steps, size_t imagesPerStep)
      : progress_(label, steps), untimed_(std::min(kUntimedSteps, steps - 1)), imagesPerStep_(imagesPerStep) {}

  void add(double loss, double seconds, const sparsecollStats_t& stats, double density) {
    ++steps_;
    sentBytes_ += static_cast<double>(stats.lastBytesSent);
    density_ += density;
    if (steps_ > untimed_) {
      seconds_ += seconds;
      localNs_ += static_cast<double>(stats.lastSelectNs + stats.lastScatterNs);
      exchangeNs_ += static_cast<double>(stats.lastExchangeNs);
    }
    const double speed = steps_ > untimed_ ? imagesPerSecond() : static_cast<double>(imagesPerStep_) / seconds;
    progress_.update({steps_, loss, speed, density, stats.lastBytesSent});
  }

  void report(TrainingResult& result) const {
    const double timed = timedSteps(), all = static_cast<double>(steps_);
    result.steps = steps_;
    result.stepMs = seconds_ / timed * 1e3;
    result.localMs = localNs_ / timed * 1e-6;
    result.exchangeMs = exchangeNs_ / timed * 1e-6;
    result.sentBytesPerStep = sentBytes_ / all;
    result.achievedDensity = density_ / all;
    result.imagesPerSecond = imagesPerSecond();
  }

 private:
  double timedSteps() const { return static_cast<double>(steps_ - untimed_); }
  double imagesPerSecond() const { return static_cast<double>(imagesPerStep_) * timedSteps() / seconds_; }

  Progress progress_;
  size_t untimed_;
  size_t imagesPerStep_;
  size_t steps_ = 0;
  double seconds_ = 0, localNs_ = 0, exchangeNs_ = 0, sentBytes_ = 0, density_ = 0;
};

class Training {
 public:
  Training(const Options& options, const Cifar10& data, const std::string& preset)
      : options_(options),
        data_(data),
        params_(methodParams(preset, options)),
        schedule_(options, data.train.size()),
        dump_(options),
        meter_(preset, schedule_.steps, options.ranks * options.batchSize),
        comms_(options.ranks),
        tailLoss_(options.ranks) {
    for (size_t rank = 0; rank < options.ranks; ++rank) {
      replicas_.push_back(std::make_unique<Replica>(options.model, options.seed));
    }
    result_.preset = preset;
    result_.density = isDense(params_) ? 1.0 : options.density;
    result_.parameters = replicas_[0]->parameterCount();
  }

  TrainingResult run() {
    runRanks(
        options_.ranks, [this](size_t rank) { runRank(rank); }, [this](size_t rank) { comms_.abort(rank); });
    checkEqualParameters();
    meter_.report(result_);
    result_.epochs = static_cast<double>(schedule_.steps) / static_cast<double>(schedule_.stepsPerEpoch);
    result_.trainLoss = std::accumulate(tailLoss_.begin(), tailLoss_.end(), 0.0) / static_cast<double>(options_.ranks);
    result_.testAccuracy = testAccuracy();
    return result_;
  }

 private:
  void runRank(size_t rank);
  void checkEqualParameters() const;
  double testAccuracy();
  size_t countCorrect(size_t first, size_t count) const;

  const Options& options_;
  const Cifar10& data_;
  sparsecollParams_t params_;
  Schedule schedule_;
  GradientDump dump_;
  Meter meter_;  // used by rank 0 only
  Communicators comms_;
  std::vector<std::unique_ptr<Replica>> replicas_;
  std::vector<double> tailLoss_;
  TrainingResult result_{};
};

void Training::runRank(size_t rank) {
  Replica& replica = *replicas_[rank];
  Reducer reducer(replica.tensorLengths(), params_, comms_[rank]);
  std::vector<float> images(options_.batchSize * kImagePixels);
  std::vector<int64_t> labels(options_.batchSize);
  std::unique_ptr<TrainingBatches> batches;
  const double momentum = params_.momentum != 0 ? 0 : options_.momentum;  // not twice
  SgdStep sgd{0.0f, static_cast<float>(momentum), static_cast<float>(options_.weightDecay)};
  const size_t tail = std::max<size_t>(1, schedule_.steps / 10);

  for (size_t step = 0; step < schedule_.steps; ++step) {
    const auto start = Clock::now();
    if (step % schedule_.stepsPerEpoch == 0) {
      const Shard shard{options_.seed, step / schedule_.stepsPerEpoch, rank, options_.ranks, options_.batchSize};
      batches = std::make_unique<TrainingBatches>(data_.train, shard);
    }
    batches->next(images.data(), labels.data());
    const double loss = replica.accumulateGradient(images.data(), labels.data(), options_.batchSize);
    dump_.write(step + 1, rank, replica);
    reducer.run(replica.gradient());
    sgd.learningRate = static_cast<float>(schedule_.learningRate(step));
    replica.applySgd(sgd);
    if (step + tail >= schedule_.steps) tailLoss_[rank] += loss / static_cast<double>(tail);
    if (rank != 0) continue;
    const auto stats = reducer.stats();
    meter_.add(loss, std::chrono::duration<double>(Clock::now() - start).count(), stats,
               reducer.achievedDensity(stats));
  }
}

// The library promises the same bits on all ranks, and the optimiser is the same code on the same numbers.
void Training::checkEqualParameters() const {
  const size_t bytes = result_.parameters * sizeof(float);
  for (size_t rank = 1; rank < options_.ranks; ++rank) {
    if (std::memcmp(replicas_[0]->parameters(), replicas_[rank]->parameters(), bytes) == 0) continue;
    throw std::runtime_error("the parameters of rank " + std::to_string(rank) + " differ from those of rank 0");
  }
}

// Rank 0's model, batch-norm statistics included; the images are dealt out to as many threads as there are ranks.
double Training::testAccuracy() {
  if (data_.test.size() == 0) throw std::runtime_error("there are no test images");
  replicas_[0]->prepareForTest();
  std::vector<size_t> correct(options_.ranks);
  const auto body = [&](size_t rank) {
    for (size_t first = rank * kTestBatch; first < data_.test.size(); first += options_.ranks * kTestBatch) {
      correct[rank] += countCorrect(first, std::min(kTestBatch, data_.test.size() - first));
    }
  };
  runRanks(options_.ranks, body, [](size_t) {});
  const size_t total = std::accumulate(correct.begin(), correct.end(), size_t{0});
  return static_cast<double>(total) / static_cast<double>(data_.test.size());
}

size_t Training::countCorrect(size_t first, size_t count) const {
  std::vector<float> images(count * kImagePixels);
  std::vector<int64_t> labels(count);
  for (size_t i = 0; i < count; ++i) {
    normaliseImage(data_.test.image(first + i), images.data() + i * kImagePixels);
    labels[i] = data_.test.labels[first + i];
  }
  return replicas_[0]->countCorrect(images.data(), labels.data(), count);
}

}  // namespace

TrainingResult train(const Options& options, const Cifar10& data, const std::string& preset) {
  return Training(options, data, preset).run();
}

}  // namespace examples
