// SPDX-License-Identifier: Apache-2.0
// One rank that learns: task, optimiser and gradient exchange. Free of LibTorch on purpose, which takes 15 s to
// compile.
#pragma once

#include <sparsecoll/sparsecoll.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "examples/common/metric.h"
#include "examples/common/program.h"
#include "examples/common/settings.h"

namespace examples {

/// Where the time of a step went, in seconds. sync is the whole exchange as the trainer sees it; select, exchange and
/// scatter are what the library says of it (with overlap they may add up to more, behind backward).
struct StepTimes {
  double data = 0, forward = 0, backward = 0, sync = 0, update = 0;
  double select = 0, exchange = 0, scatter = 0;
};

struct StepResult {
  double loss = 0;
  StepTimes times;
  double sentBytes = 0;
  double density = 0;  // achieved: of the union over the ranks where the preset counts that, else of this rank
};

class Learner {
 public:
  /// Collective over comm. The program makes its task while other learners of the process wait, right after
  /// torch::manual_seed.
  Learner(const Program& program, const Settings& settings, const Replica& replica, const std::string& preset,
          sparsecollComm_t comm);
  ~Learner();
  Learner(const Learner&) = delete;
  Learner& operator=(const Learner&) = delete;

  size_t parameterCount() const;
  size_t stepsPerEpoch() const;
  size_t samplesPerStep() const;

  /// Collective. step counts from 0 over the whole training. dumpTo: a .npy file for this rank's gradient as it is
  /// before the exchange, without the residual; empty: none. timed: data, forward and backward each wait for a CUDA
  /// device, which would work on behind them; else its times are those of the calls.
  StepResult step(size_t step, double learningRate, const std::filesystem::path& dumpTo, bool timed);

  /// L2 norm of the residual: what this rank keeps for later steps.
  double residualNorm() const;

  /// This rank's part of a test, with the ranks' averages for the model's buffers (batch norm). sum adds up over the
  /// ranks; collective.
  std::vector<Metric> evaluate(size_t part, size_t parts, const std::function<void(std::vector<double>&)>& sum);

  /// Equal on two ranks if all bits of their parameters are.
  uint64_t fingerprint() const;

  /// Model, optimiser, residual, task: everything that the next steps depend on. Errors: std::exception.
  std::string save() const;
  void load(const std::string& saved);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The preset as the library describes it. Errors: std::runtime_error (unknown).
sparsecollParams_t presetParams(const std::string& preset);
inline bool isDense(const sparsecollParams_t& params) { return params.collective == sparsecollCollDense; }

/// CUDA ordinals for so many ranks, dealt out on each host in turn; none for "cpu". Errors: std::runtime_error (no such
/// device here).
std::vector<int> devicesOf(const std::string& device, size_t ranks);

/// Settings of the process that make training on a CPU fast; call it first.
void tuneProcess();

}  // namespace examples
