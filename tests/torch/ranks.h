// SPDX-License-Identifier: Apache-2.0
// Ranks on threads, and a small network with its data, the same on every machine.
#pragma once

#include <torch/nn.h>
#include <torch/utils.h>
#include <sparsecoll/torch.hpp>

#include <cstring>
#include <functional>
#include <limits>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>
#include "tests/support/catch.h"
#include "tests/support/rank_threads.h"

namespace torch_test {

namespace nn = torch::nn;
using sparsecoll::torch::Comm;
using sparsecoll::torch::Error;
using sparsecoll::torch::GradientSync;
using sparsecoll::torch::Options;

// body(rank, communicator) on a thread for each rank; what they throw, in order of the ranks ("" for none).
inline std::vector<std::string> onRanks(int ranks, const std::function<void(int, sparsecollComm_t)>& body,
                                        const sparsecollConfig_t* config = nullptr) {
  auto comms = Comm::threads(ranks, {}, config);
  std::vector<std::string> failures(comms.size());
  sparsecoll::test::RankThreads::ofProcess().run(ranks, [&](int rank) {
    const auto r = static_cast<size_t>(rank);
    at::set_num_threads(1);
    try {
      body(rank, comms[r]);
    } catch (const std::exception& error) {
      failures[r] = error.what();
      if (failures[r].empty()) failures[r] = "?";
      sparsecollCommAbort(comms[r]);
    }
  });
  return failures;
}

inline void requireNone(const std::vector<std::string>& failures) {
  for (const auto& failure : failures) REQUIRE(failure == "");
}

// Matrices and vectors of several lengths.
inline nn::Sequential makeNet(uint64_t seed = 3) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  torch::manual_seed(seed);
  return nn::Sequential(nn::Linear(12, 40), nn::Tanh(), nn::LayerNorm(nn::LayerNormOptions({40})), nn::Linear(40, 30),
                        nn::Tanh(), nn::Linear(30, 5));
}

// Made without LibTorch's generator, which the ranks share.
inline torch::Tensor pattern(at::IntArrayRef sizes, int64_t salt) {
  int64_t count = 1;
  for (const auto size : sizes) count *= size;
  auto values = torch::arange(count, torch::kDouble);
  return ((values * (salt + 7) * 0.618 + values * values * 0.01).sin() * 2).to(torch::kFloat).reshape(sizes);
}

inline torch::Tensor lossOf(nn::Sequential& net, int64_t step, int64_t rank, int64_t rows = 8) {
  const auto x = pattern({rows, 12}, 31 * step + rank), y = pattern({rows, 5}, 17 * step + rank + 100);
  return torch::mse_loss(net->forward(x), y);
}

// On rank 1 a parameter's gradient is NaN, and the step ends with NonFinite on all ranks.
inline void failStep(GradientSync& sync, nn::Sequential& net, int64_t step, int rank, size_t spoilt) {
  auto loss = lossOf(net, step, rank);
  if (rank == 1) loss = loss + (net->parameters()[spoilt] * std::numeric_limits<float>::quiet_NaN()).sum();
  loss.backward();
  try {
    sync.step();
  } catch (const Error& error) {
    if (error.code() == sparsecollNonFinite) return;
    throw;
  }
  throw std::runtime_error("no error");
}

inline std::vector<float> flat(const nn::Sequential& net, bool gradients = false) {
  std::vector<float> values;
  for (const auto& parameter : net->parameters()) {
    const auto line = (gradients ? parameter.grad() : parameter.detach()).contiguous().view(-1);
    values.insert(values.end(), line.data_ptr<float>(), line.data_ptr<float>() + line.numel());
  }
  return values;
}

inline std::vector<float> flatGradients(const nn::Sequential& net) { return flat(net, true); }

inline bool equalBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

inline Options sparse(const std::string& preset, double density) {
  Options options;
  options.preset = preset;
  options.density = density;
  return options;
}

// For what runs on threads of ranks, where Catch2's own checks may not.
inline void need(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(what);
}

}  // namespace torch_test
