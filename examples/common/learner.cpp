// SPDX-License-Identifier: Apache-2.0
#include "examples/common/learner.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <torch/cuda.h>
#include <torch/optim/adam.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>
#include <sparsecoll/torch.hpp>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <chrono>
#include <cmath>
#include <mutex>
#include <stdexcept>

#include "examples/common/check.h"
#include "examples/common/npy.h"
#include "examples/common/random.h"
#include "examples/common/schedule.h"
#include "examples/common/task.h"
#include "examples/common/world.h"

namespace examples {

namespace {

using Seconds = std::chrono::duration<double>;

/// Time since it was last asked, with what a CUDA device had to do until then if waits is set.
class Lap {
 public:
  Lap(const torch::Device& device, bool waits) : device_(device), waits_(waits && device.is_cuda()) {}

  double seconds() {
    if (waits_) torch::cuda::synchronize(device_.index());
    const auto now = std::chrono::steady_clock::now();
    return Seconds(now - std::exchange(last_, now)).count();
  }

 private:
  torch::Device device_;
  bool waits_;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

// The generator that initialises weights belongs to the process.
std::shared_ptr<Task> makeOneAtATime(const Program& program, const Settings& settings, const Replica& replica) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  torch::manual_seed(settings.seed);
  return program.makeTask(settings, replica);
}

// Momentum happens once: in the exchange of sparse methods with the recipe, or where the preset has it there, else in
// the optimiser. Adam's is not the exchange's.
bool exchangeHasMomentum(const Settings& settings, const std::string& preset) {
  const auto params = presetParams(preset);
  if (isDense(params) || !settings.exchange.errorFeedback || settings.optimizer.name != "sgd") return false;
  return settings.exchange.recipe || params.momentum != 0;
}

sparsecoll::torch::Options exchangeOptions(const Settings& settings, const std::string& preset, size_t stepsPerEpoch) {
  const auto& exchange = settings.exchange;
  sparsecoll::torch::Options options;
  options.preset = preset;
  options.density = exchange.density;
  options.errorFeedback = exchange.errorFeedback;
  options.seed = settings.seed;
  options.bucketBytes = static_cast<size_t>(exchange.bucketMegabytes * 1e6);
  options.overlap = exchange.overlap;
  options.vectorDensity = exchange.vectorDensity;
  const double momentum = exchangeHasMomentum(settings, preset) ? settings.optimizer.momentum : 0;
  if (exchange.recipe) options.useRecipe(Schedule(settings, stepsPerEpoch).steps(), momentum);
  options.momentum = momentum;
  options.nesterov = settings.optimizer.nesterov;
  if (!exchange.densitySchedule.empty()) {
    options.densitySchedule = exchange.densitySchedule;
    options.scheduleSteps = stepsPerEpoch;
  }
  if (exchange.scheduleSteps > 0) options.scheduleSteps = exchange.scheduleSteps;
  options.adjust = [&exchange](sparsecollParams_t& params) {
    params.clipNorm = exchange.clipNorm;
    if (!exchange.overNodes) return;
    params.betweenNodes = params.collective;
    params.collective = sparsecollCollHierarchical;
  };
  return options;
}

OptimizerSettings optimizerSettings(const Settings& settings, const std::string& preset) {
  auto optimizer = settings.optimizer;
  if (!exchangeHasMomentum(settings, preset)) return optimizer;
  // Weights hardly move while momentum lasts, so what it would add to their decay is this factor.
  optimizer.weightDecay /= 1 - optimizer.momentum;
  optimizer.momentum = 0;
  return optimizer;
}

template <class Options>
std::vector<torch::optim::OptimizerParamGroup> parameterGroups(torch::nn::Module& module, const Options& options,
                                                               bool decayVectors) {
  std::vector<torch::Tensor> decayed, spared;
  for (const auto& parameter : module.parameters())
    (parameter.dim() > 1 || decayVectors ? decayed : spared).push_back(parameter);
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(decayed, std::make_unique<Options>(options));
  if (!spared.empty()) groups.emplace_back(spared, std::make_unique<Options>(Options(options).weight_decay(0)));
  return groups;
}

}  // namespace

std::unique_ptr<torch::optim::Optimizer> Task::makeOptimizer(const OptimizerSettings& settings) {
  if (settings.name == "adam") {
    const auto options = torch::optim::AdamOptions()
                             .betas(std::make_tuple(settings.beta1, settings.beta2))
                             .eps(settings.epsilon)
                             .weight_decay(settings.weightDecay);
    return std::make_unique<torch::optim::Adam>(parameterGroups(module(), options, settings.decayVectors), options);
  }
  const auto options = torch::optim::SGDOptions(0.1)
                           .momentum(settings.momentum)
                           .nesterov(settings.nesterov && settings.momentum > 0)
                           .weight_decay(settings.weightDecay);
  return std::make_unique<torch::optim::SGD>(parameterGroups(module(), options, settings.decayVectors), options);
}

struct Learner::State {
  std::shared_ptr<Task> task;
  std::unique_ptr<torch::optim::Optimizer> optimizer;
  std::unique_ptr<sparsecoll::torch::GradientSync> sync;
  std::vector<torch::Tensor> parameters;
  uint64_t seed;
  size_t rank;

  void dump(const std::filesystem::path& path) const;
  void report(StepResult& result) const;
};

void Learner::State::dump(const std::filesystem::path& path) const {
  std::vector<torch::Tensor> parts;
  for (const auto& parameter : parameters) {
    const auto& gradient = parameter.grad();
    parts.push_back(gradient.defined() ? gradient.to_dense().flatten().to(torch::kCPU, torch::kFloat)
                                       : torch::zeros({parameter.numel()}));
  }
  const auto flat = torch::cat(parts);
  writeNpy(path, flat.data_ptr<float>(), static_cast<size_t>(flat.numel()));
}

void Learner::State::report(StepResult& result) const {
  double entries = 0, length = 0;
  for (size_t i = 0; i < sync->buckets(); ++i) {
    const auto info = sync->info(i);
    const auto stats = sync->stats(i);
    result.sentBytes += static_cast<double>(stats.lastBytesSent);
    result.times.select += static_cast<double>(stats.lastSelectNs) * 1e-9;
    result.times.exchange += static_cast<double>(stats.lastExchangeNs) * 1e-9;
    result.times.scatter += static_cast<double>(stats.lastScatterNs) * 1e-9;
    const auto sent = info.collective == sparsecollCollDense ? info.n
                      : info.densityIsGlobal != 0            ? stats.lastUnion
                                                             : stats.lastSelected;
    entries += static_cast<double>(sent);
    length += static_cast<double>(info.n);
  }
  result.density = entries / length;
}

Learner::Learner(const Program& program, const Settings& settings, const Replica& replica, const std::string& preset,
                 sparsecollComm_t comm)
    : state_(std::make_unique<State>()) {
  at::set_num_threads(1);  // counted per calling thread
  state_->seed = settings.seed;
  state_->rank = replica.rank;
  state_->task = makeOneAtATime(program, settings, replica);
  Task& task = *state_->task;
  for (const auto& parameter : task.module().parameters())
    if (parameter.requires_grad()) state_->parameters.push_back(parameter);
  const auto device = state_->parameters.at(0).device();
  task.useNoise(at::globalContext().defaultGenerator(device).clone());
  state_->optimizer = task.makeOptimizer(optimizerSettings(settings, preset));
  state_->sync = std::make_unique<sparsecoll::torch::GradientSync>(
      state_->parameters, comm, exchangeOptions(settings, preset, task.stepsPerEpoch()));
}

Learner::~Learner() = default;

size_t Learner::parameterCount() const {
  int64_t count = 0;
  for (const auto& parameter : state_->task->module().parameters()) count += parameter.numel();
  return static_cast<size_t>(count);
}

size_t Learner::stepsPerEpoch() const { return state_->task->stepsPerEpoch(); }
size_t Learner::samplesPerStep() const { return state_->task->samplesPerStep(); }

StepResult Learner::step(size_t step, double learningRate, const std::filesystem::path& dumpTo, bool timed) {
  Task& task = *state_->task;
  StepResult result;
  Lap lap(state_->parameters.front().device(), timed);
  task.module().train();
  task.noise().set_current_seed(Random(state_->seed, 1 + step, 1 + state_->rank).next());
  task.prepare(step / stepsPerEpoch(), step % stepsPerEpoch());
  result.times.data = lap.seconds();
  const auto loss = task.loss();
  result.times.forward = lap.seconds();
  loss.backward();
  task.afterBackward();
  result.times.backward = lap.seconds();
  if (!dumpTo.empty()) state_->dump(dumpTo);
  lap.seconds();
  state_->sync->step();
  state_->sync->wait();
  result.times.sync = lap.seconds();
  for (auto& group : state_->optimizer->param_groups()) group.options().set_lr(learningRate);
  state_->optimizer->step();
  state_->sync->zeroGrad();
  result.loss = loss.item<double>();
  result.times.update = lap.seconds();
  state_->report(result);
  return result;
}

double Learner::residualNorm() const {
  double squares = 0;
  for (size_t i = 0; i < state_->sync->buckets(); ++i) {
    const double norm = state_->sync->residualNorm(i);
    squares += norm * norm;
  }
  return std::sqrt(squares);
}

// Buffers are averaged for the test only: in training every rank has its own.
std::vector<Metric> Learner::evaluate(size_t part, size_t parts, const std::function<void(std::vector<double>&)>& sum) {
  const torch::NoGradGuard noGrad;
  Task& task = *state_->task;
  std::vector<torch::Tensor> buffers, own;
  std::vector<double> values;
  for (const auto& buffer : task.module().buffers()) {
    if (!buffer.is_floating_point()) continue;
    buffers.push_back(buffer);
    own.push_back(buffer.clone());
    const auto flat = buffer.flatten().to(torch::kCPU, torch::kDouble);
    values.insert(values.end(), flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel());
  }
  if (!values.empty()) sum(values);
  int64_t offset = 0;
  const auto averages = torch::tensor(values, torch::kDouble) / static_cast<double>(parts);
  for (auto& buffer : buffers) {
    buffer.copy_(averages.narrow(0, offset, buffer.numel()).view(buffer.sizes()));
    offset += buffer.numel();
  }
  task.module().eval();
  auto sums = task.evaluate(part, parts);
  for (size_t i = 0; i < buffers.size(); ++i) buffers[i].copy_(own[i]);
  sum(sums);
  return task.metrics(sums);
}

uint64_t Learner::fingerprint() const {
  uint64_t hash = 0;
  for (const auto& parameter : state_->task->module().parameters()) {
    const auto values = parameter.detach().to(torch::kCPU).contiguous();
    hash = XXH3_64bits_withSeed(values.data_ptr(), values.nbytes(), hash);
  }
  return hash;
}

std::string Learner::save() const {
  torch::serialize::OutputArchive archive;
  const auto part = [&archive](const char* name, const auto& saved) {
    torch::serialize::OutputArchive inner(archive.compilation_unit());
    saved.save(inner);
    archive.write(name, inner);
  };
  part("model", state_->task->module());
  part("optimizer", *state_->optimizer);
  part("sync", *state_->sync);
  part("task", *state_->task);
  std::string saved;
  archive.save_to([&saved](const void* bytes, size_t count) {
    saved.append(static_cast<const char*>(bytes), count);
    return count;
  });
  return saved;
}

void Learner::load(const std::string& saved) {
  torch::serialize::InputArchive archive;
  archive.load_from(saved.data(), saved.size());
  const auto part = [&archive](const char* name, auto& loaded) {
    torch::serialize::InputArchive inner;
    archive.read(name, inner);
    loaded.load(inner);
  };
  part("model", state_->task->module());
  part("optimizer", *state_->optimizer);
  part("sync", *state_->sync);
  part("task", *state_->task);
}

sparsecollParams_t presetParams(const std::string& preset) {
  auto params = SPARSECOLL_INIT(sparsecollParams_t);
  check(sparsecollPreset(preset.c_str(), &params), ("preset '" + preset + "'").c_str());
  return params;
}

std::vector<int> devicesOf(const std::string& device, size_t ranks) {
  if (device == "cpu") return {};
  const size_t count = torch::cuda::device_count();
  if (count == 0) throw std::runtime_error("--device cuda: this LibTorch sees no CUDA device");
  std::vector<int> devices(ranks);
  for (size_t rank = 0; rank < ranks; ++rank) devices[rank] = static_cast<int>(numberOnHost(rank) % count);
  return devices;
}

}  // namespace examples
