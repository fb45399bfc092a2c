// SPDX-License-Identifier: Apache-2.0
// The recurrent networks of the trainers, without anything that depends on sparsecoll.
#pragma once

#include <torch/nn.h>

#include <cstdint>
#include <vector>

namespace examples {

struct RecurrentShape {
  int64_t vocabulary;
  int64_t width = 650;  // of embedding and hidden states
  int64_t layers = 3;
  double dropout = 0.4;  // on the embedding and behind every layer
};

/// Hidden and cell state of every layer.
using RecurrentState = std::vector<std::tuple<torch::Tensor, torch::Tensor>>;

/// LSTM layers of one width over an embedding.
class RecurrentStackImpl : public torch::nn::Module {
 public:
  RecurrentStackImpl(const RecurrentShape& shape, bool padded);

  /// words: a row for each step, a column for each sequence. state goes in and comes out, free of history.
  torch::Tensor forward(const torch::Tensor& words, RecurrentState& state, at::Generator& noise);
  RecurrentState zeroState(int64_t columns) const;
  const torch::Tensor& embedding() const { return embedding_->weight; }

 private:
  RecurrentShape shape_;
  torch::nn::Embedding embedding_{nullptr};
  std::vector<torch::nn::LSTM> layers_;
};
TORCH_MODULE(RecurrentStack);

/// Predicts the next word; the output's weights are the embedding's (Press and Wolf 2017). With 28,869 words:
/// 28,949,319 parameters in 14 tensors.
class LanguageModelImpl : public torch::nn::Module {
 public:
  explicit LanguageModelImpl(const RecurrentShape& shape);

  /// Scores of all words, a row for each word of words.
  torch::Tensor forward(const torch::Tensor& words, RecurrentState& state, at::Generator& noise);
  RecurrentState zeroState(int64_t columns) const { return stack_->zeroState(columns); }

 private:
  RecurrentStack stack_;
  torch::Tensor bias_;
};
TORCH_MODULE(LanguageModel);

/// Judges whole texts: the mean of the last layer's outputs over the words (padding is left out), then one number that
/// is positive for a good verdict.
class SentimentModelImpl : public torch::nn::Module {
 public:
  explicit SentimentModelImpl(const RecurrentShape& shape);
  torch::Tensor forward(const torch::Tensor& words, at::Generator& noise);

 private:
  RecurrentStack stack_;
  torch::nn::Linear verdict_;
};
TORCH_MODULE(SentimentModel);

}  // namespace examples
