// SPDX-License-Identifier: Apache-2.0
#include "examples/ncf/model.h"

#include <cmath>

#include "examples/common/dropout.h"

namespace examples {

namespace {

constexpr double kEmbeddingDeviation = 0.01;

}  // namespace

NeuMfImpl::NeuMfImpl(const NeuMfShape& shape)
    : dropout_(shape.dropout),
      productUsers_(embedding("product_users", shape.users, shape.factors)),
      productItems_(embedding("product_items", shape.items, shape.factors)),
      deepUsers_(embedding("deep_users", shape.users, 2 * shape.factors)),
      deepItems_(embedding("deep_items", shape.items, 2 * shape.factors)) {
  int64_t width = 4 * shape.factors;
  for (const int64_t next : {4 * shape.factors, 2 * shape.factors, shape.factors}) {
    const double glorot = std::sqrt(6.0 / static_cast<double>(width + next));
    layers_.push_back(linear("layer" + std::to_string(layers_.size()), width, next, glorot));
    width = next;
  }
  const double lecun = std::sqrt(3.0 / static_cast<double>(2 * shape.factors));
  verdict_ = linear("verdict", 2 * shape.factors, 1, lecun);
}

torch::nn::Embedding NeuMfImpl::embedding(const std::string& name, int64_t rows, int64_t columns) {
  const torch::NoGradGuard noGrad;
  auto module = register_module(name, torch::nn::Embedding(rows, columns));
  module->weight.normal_(0, kEmbeddingDeviation);
  return module;
}

torch::nn::Linear NeuMfImpl::linear(const std::string& name, int64_t inputs, int64_t outputs, double range) {
  const torch::NoGradGuard noGrad;
  auto module = register_module(name, torch::nn::Linear(inputs, outputs));
  module->weight.uniform_(-range, range);
  module->bias.zero_();
  return module;
}

torch::Tensor NeuMfImpl::forward(const torch::Tensor& users, const torch::Tensor& items, at::Generator& noise) {
  const auto product = productUsers_(users) * productItems_(items);
  auto deep = torch::cat({deepUsers_(users), deepItems_(items)}, 1);
  for (auto& layer : layers_) deep = dropout(torch::relu(layer(deep)), dropout_, is_training(), noise);
  return verdict_(torch::cat({product, deep}, 1)).squeeze(1);
}

}  // namespace examples
