// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

namespace examples {

/// values with each entry set to 0 with the given probability and the others scaled up, drawn from noise: Task::noise().
inline torch::Tensor dropout(const torch::Tensor& values, double probability, bool training, at::Generator& noise) {
  if (!training || probability <= 0) return values;
  torch::Tensor mask;
  {
    const torch::NoGradGuard noGrad;
    mask = torch::empty_like(values).bernoulli_(1 - probability, noise).div_(1 - probability);
  }
  return values * mask;
}

/// torch::nn::Dropout with numbers from a generator of its own: Task::noise(), which outlives it.
class DropoutImpl : public torch::nn::Module {
 public:
  DropoutImpl(double probability, at::Generator& noise) : probability_(probability), noise_(noise) {}

  torch::Tensor forward(const torch::Tensor& input) { return dropout(input, probability_, is_training(), noise_); }

 private:
  double probability_;
  at::Generator& noise_;
};
TORCH_MODULE(Dropout);

}  // namespace examples
