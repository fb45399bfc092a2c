// SPDX-License-Identifier: Apache-2.0
#include "examples/lstm/models.h"

#include "examples/common/dropout.h"
#include "examples/lstm/reviews.h"

namespace examples {

namespace {

constexpr double kEmbeddingRange = 0.1;

}  // namespace

RecurrentStackImpl::RecurrentStackImpl(const RecurrentShape& shape, bool padded) : shape_(shape) {
  auto options = torch::nn::EmbeddingOptions(shape.vocabulary, shape.width);
  if (padded) options.padding_idx(kPaddingWord);
  embedding_ = register_module("embedding", torch::nn::Embedding(options));
  const torch::NoGradGuard noGrad;
  embedding_->weight.uniform_(-kEmbeddingRange, kEmbeddingRange);
  if (padded) embedding_->weight[kPaddingWord].zero_();
  for (int64_t i = 0; i < shape.layers; ++i) {
    const auto layer = torch::nn::LSTM(torch::nn::LSTMOptions(shape.width, shape.width));
    layers_.push_back(register_module("layer" + std::to_string(i), layer));
  }
}

torch::Tensor RecurrentStackImpl::forward(const torch::Tensor& words, RecurrentState& state, at::Generator& noise) {
  auto values = dropout(embedding_(words), shape_.dropout, is_training(), noise);
  for (size_t i = 0; i < layers_.size(); ++i) {
    const auto [output, next] = layers_[i]->forward(values, state[i]);
    state[i] = {std::get<0>(next).detach(), std::get<1>(next).detach()};
    values = dropout(output, shape_.dropout, is_training(), noise);
  }
  return values;
}

RecurrentState RecurrentStackImpl::zeroState(int64_t columns) const {
  const auto zeros = [&] { return torch::zeros({1, columns, shape_.width}, embedding_->weight.options()); };
  RecurrentState state;
  for (int64_t i = 0; i < shape_.layers; ++i) state.emplace_back(zeros().detach(), zeros().detach());
  return state;
}

LanguageModelImpl::LanguageModelImpl(const RecurrentShape& shape)
    : stack_(register_module("stack", RecurrentStack(shape, false))),
      bias_(register_parameter("bias", torch::zeros({shape.vocabulary}))) {}

torch::Tensor LanguageModelImpl::forward(const torch::Tensor& words, RecurrentState& state, at::Generator& noise) {
  const auto values = stack_->forward(words, state, noise);
  return torch::addmm(bias_, values.flatten(0, 1), stack_->embedding().t());
}

SentimentModelImpl::SentimentModelImpl(const RecurrentShape& shape)
    : stack_(register_module("stack", RecurrentStack(shape, true))),
      verdict_(register_module("verdict", torch::nn::Linear(shape.width, 1))) {}

torch::Tensor SentimentModelImpl::forward(const torch::Tensor& words, at::Generator& noise) {
  auto state = stack_->zeroState(words.size(1));
  const auto values = stack_->forward(words, state, noise);
  const auto real = words.ne(kPaddingWord).to(values.dtype()).unsqueeze(2);
  const auto mean = (values * real).sum(0) / real.sum(0).clamp_min(1);
  return verdict_(mean).squeeze(1);
}

}  // namespace examples
