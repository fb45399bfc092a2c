// SPDX-License-Identifier: Apache-2.0
// The network of the speech trainer, without anything that depends on sparsecoll.
#pragma once

#include <torch/nn.h>

#include <cstdint>
#include <vector>

#include "examples/speech/alphabet.h"
#include "examples/speech/frames.h"

namespace examples {

/// Logarithms of the magnitudes of Hamming windows, brought to mean 0 and deviation 1 over the utterance: a row for
/// each frame, a column for each frequency.
torch::Tensor spectrogram(const std::vector<float>& samples, const FrameShape& shape);

/// Utterances side by side, zeros behind the shorter ones.
struct SpeechBatch {
  torch::Tensor spectrograms;  // utterances x frequencies x frames
  torch::Tensor steps;         // of the network's output for each utterance; long, on the CPU
  torch::Tensor targets;       // labels of all transcripts, one after the other
  torch::Tensor targetLengths;

  /// Errors: std::logic_error where the sizes differ.
  static SpeechBatch pack(const std::vector<torch::Tensor>& spectrograms, const std::vector<std::vector<Label>>& texts);
  SpeechBatch to(const torch::Device& device) const;
};

struct SpeechShape {
  int64_t frequencies;
  int64_t width = 64;  // channels of the convolutions, and states of the LSTM in each direction
  int64_t layers = 1;  // of the LSTM
  double dropout = 0;  // in front of every LSTM layer
};

/// Two convolutions over time, of which the first takes kStride frames to one step, LSTM layers in both directions, and
/// a score for each label. What stands behind an utterance in its batch changes nothing for it.
class SpeechModelImpl : public torch::nn::Module {
 public:
  explicit SpeechModelImpl(const SpeechShape& shape);

  /// Logarithms of the labels' probabilities: steps x utterances x labels.
  torch::Tensor forward(const SpeechBatch& batch, at::Generator& noise);

 private:
  SpeechShape shape_;
  torch::nn::Conv1d first_, second_;
  std::vector<torch::nn::LSTM> layers_;
  torch::nn::Linear scores_;
};
TORCH_MODULE(SpeechModel);

/// CTC loss of each utterance, by the length of its transcript. One that has too few steps for that has loss 0.
torch::Tensor ctcLosses(const torch::Tensor& logProbabilities, const SpeechBatch& batch);

}  // namespace examples
