// SPDX-License-Identifier: Apache-2.0
// One rank's copy of the model. This header is free of LibTorch on purpose: it takes 15 s to compile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace examples {

struct SgdStep {
  float learningRate;
  float momentum;
  float weightDecay;
};

/// A network whose parameters are views into one flat buffer and whose gradients are views into another one, so that
/// a reducer and the optimiser run over plain arrays and nothing is copied.
/// Threads: one at a time, except countCorrect, which may run on many at once.
class Replica {
 public:
  /// Equal arguments give equal weights. Uses a global generator: build all replicas on one thread.
  /// Errors: std::invalid_argument (unknown model).
  Replica(const std::string& model, uint64_t seed);
  ~Replica();
  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;

  size_t parameterCount() const;
  std::vector<size_t> tensorLengths() const;  // in the order of the flat buffers
  const float* parameters() const;
  float* gradient();  // starts as 0

  /// Forward and backward pass over a batch of planar images; adds to gradient(). Returns the mean loss.
  float accumulateGradient(float* images, int64_t* labels, size_t batchSize);

  /// velocity = momentum * velocity + gradient + weightDecay * parameter; parameter -= learningRate * velocity;
  /// gradient = 0, for the next step.
  void applySgd(const SgdStep& step);

  void prepareForTest();  // from here on batch norm uses its running statistics
  size_t countCorrect(float* images, const int64_t* labels, size_t batchSize) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Settings of the process that make training on a CPU fast; call it first.
void tuneProcess();

/// LibTorch and OpenMP count their threads per calling thread: call it at the start of every thread.
void useOneThreadPerRank();

}  // namespace examples
