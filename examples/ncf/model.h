// SPDX-License-Identifier: Apache-2.0
// Neural matrix factorisation (He et al. 2017), without anything that depends on sparsecoll.
#pragma once

#include <torch/nn.h>

#include <cstdint>

namespace examples {

struct NeuMfShape {
  int64_t users;
  int64_t items;
  int64_t factors = 64;
  double dropout = 0.5;  // behind every hidden layer
};

/// The product of two embeddings of so many factors beside a perceptron of layers 4, 4, 2 and 1 times as wide over two
/// others of twice as many; one number that is positive for a likely visit. For MovieLens-20M (138,493 users and 26,744
/// items) with 64 factors: 31,832,577 parameters in 12 tensors.
class NeuMfImpl : public torch::nn::Module {
 public:
  explicit NeuMfImpl(const NeuMfShape& shape);
  torch::Tensor forward(const torch::Tensor& users, const torch::Tensor& items, at::Generator& noise);

 private:
  torch::nn::Embedding embedding(const std::string& name, int64_t rows, int64_t columns);
  torch::nn::Linear linear(const std::string& name, int64_t inputs, int64_t outputs, double range);

  double dropout_;
  torch::nn::Embedding productUsers_, productItems_, deepUsers_, deepItems_;
  std::vector<torch::nn::Linear> layers_;
  torch::nn::Linear verdict_{nullptr};
};
TORCH_MODULE(NeuMf);

}  // namespace examples
