// SPDX-License-Identifier: Apache-2.0
#include "examples/speech/model.h"

#include <torch/fft.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/utils/rnn.h>

#include <algorithm>
#include <stdexcept>

#include "examples/common/dropout.h"

namespace examples {

namespace {

constexpr int64_t kFirstKernel = 7, kSecondKernel = 5;
constexpr double kSilence = 1e-3;  // where the logarithm of a magnitude ends
constexpr double kFlat = 1e-5;     // deviation of an utterance without any change
constexpr int64_t kDirections = 2;

torch::nn::Conv1d convolution(int64_t inputs, int64_t outputs, int64_t kernel, int64_t stride) {
  return torch::nn::Conv1d(torch::nn::Conv1dOptions(inputs, outputs, kernel).stride(stride).padding(kernel / 2));
}

}  // namespace

torch::Tensor spectrogram(const std::vector<float>& samples, const FrameShape& shape) {
  const torch::NoGradGuard noGrad;
  const auto window = static_cast<int64_t>(shape.window), hop = static_cast<int64_t>(shape.hop);
  const auto filled = torch::zeros({std::max(static_cast<int64_t>(samples.size()), window)});
  std::copy(samples.begin(), samples.end(), filled.data_ptr<float>());
  const auto windows = filled.unfold(0, window, hop) * torch::hamming_window(window, false);
  const auto magnitudes = torch::log(torch::fft::rfft(windows).abs() + kSilence);
  const auto centred = magnitudes - magnitudes.mean();
  return centred / (centred.square().mean().sqrt() + kFlat);
}

SpeechBatch SpeechBatch::pack(const std::vector<torch::Tensor>& spectrograms,
                              const std::vector<std::vector<Label>>& texts) {
  if (spectrograms.empty() || spectrograms.size() != texts.size())
    throw std::logic_error("SpeechBatch: a transcript for each spectrogram");
  std::vector<int64_t> steps, labels, lengths;
  for (size_t i = 0; i < texts.size(); ++i) {
    steps.push_back(static_cast<int64_t>(stepsOf(static_cast<size_t>(spectrograms[i].size(0)))));
    lengths.push_back(static_cast<int64_t>(texts[i].size()));
    labels.insert(labels.end(), texts[i].begin(), texts[i].end());
  }
  return {torch::nn::utils::rnn::pad_sequence(spectrograms, true).transpose(1, 2), torch::tensor(steps),
          torch::tensor(labels), torch::tensor(lengths)};
}

SpeechBatch SpeechBatch::to(const torch::Device& device) const {
  return {spectrograms.to(device), steps, targets.to(device), targetLengths};
}

SpeechModelImpl::SpeechModelImpl(const SpeechShape& shape)
    : shape_(shape),
      first_(register_module("first", convolution(shape.frequencies, shape.width, kFirstKernel, kStride))),
      second_(register_module("second", convolution(shape.width, shape.width, kSecondKernel, 1))),
      scores_(nullptr) {
  int64_t inputs = shape.width;
  for (int64_t i = 0; i < shape.layers; ++i) {
    const auto layer = torch::nn::LSTM(torch::nn::LSTMOptions(inputs, shape.width).bidirectional(true));
    layers_.push_back(register_module("layer" + std::to_string(i), layer));
    inputs = kDirections * shape.width;
  }
  scores_ = register_module("scores", torch::nn::Linear(inputs, static_cast<int64_t>(kLabels)));
}

torch::Tensor SpeechModelImpl::forward(const SpeechBatch& batch, at::Generator& noise) {
  namespace rnn = torch::nn::utils::rnn;
  // Behind an utterance the second convolution would see what the first one's bias leaves there, where the utterance
  // alone sees its zeros. The LSTM's backward direction begins at the last step of each.
  auto values = torch::relu(first_(batch.spectrograms));
  const auto places = torch::arange(values.size(2), values.options().dtype(torch::kLong));
  const auto real = places.unsqueeze(0).lt(batch.steps.to(values.device()).unsqueeze(1)).unsqueeze(1);
  values = torch::relu(second_(values * real)).permute({2, 0, 1});
  for (auto& layer : layers_) {
    values = dropout(values, shape_.dropout, is_training(), noise);
    const auto packed = rnn::pack_padded_sequence(values, batch.steps, false, false);
    values = std::get<0>(rnn::pad_packed_sequence(std::get<0>(layer->forward_with_packed_input(packed))));
  }
  return torch::log_softmax(scores_(values), 2);
}

torch::Tensor ctcLosses(const torch::Tensor& logProbabilities, const SpeechBatch& batch) {
  const auto losses = torch::nn::functional::ctc_loss(
      logProbabilities, batch.targets, batch.steps, batch.targetLengths,
      torch::nn::functional::CTCLossFuncOptions().blank(kBlank).reduction(torch::kNone).zero_infinity(true));
  return losses / batch.targetLengths.to(losses.options());
}

}  // namespace examples
