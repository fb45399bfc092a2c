// SPDX-License-Identifier: Apache-2.0
#include "examples/speech/task.h"

#include <torch/nn/utils/clip_grad.h>

#include <algorithm>
#include <stdexcept>

#include "examples/common/shard.h"
#include "examples/common/task.h"
#include "examples/speech/decoding.h"
#include "examples/speech/model.h"

namespace examples {

namespace {

constexpr size_t kTestUtterances = 10;
constexpr float kUnlikely = -9;  // e^-9 = 0.0001: no prefix of the beam grows by less

class SpeechTask final : public Task {
 public:
  SpeechTask(const SpeechData& data, const SpeechOptions& options, const Settings& settings, const Replica& replica)
      : data_(data),
        options_(options),
        settings_(settings),
        replica_(replica),
        device_(replica.device),
        frames_(data.rate),
        model_(SpeechShape{static_cast<int64_t>(frames_.frequencies()), static_cast<int64_t>(options.width),
                           static_cast<int64_t>(options.layers), options.dropout}) {
    if (stepsPerEpoch() == 0) throw std::runtime_error("fewer utterances than one step of all ranks needs");
    model_->to(device_);
  }

  torch::nn::Module& module() override { return *model_; }
  size_t stepsPerEpoch() const override {
    return examples::stepsPerEpoch(data_.train->size(), replica_.ranks, settings_.batchSize);
  }
  size_t samplesPerStep() const override { return settings_.batchSize; }

  void prepare(size_t epoch, size_t step) override;

  torch::Tensor loss() override { return ctcLosses(model_->forward(batch_, noise()), batch_).mean(); }

  void afterBackward() override {
    if (options_.clip > 0) torch::nn::utils::clip_grad_norm_(model_->parameters(), options_.clip);
  }

  std::vector<double> evaluate(size_t part, size_t parts) override;

  std::vector<Metric> metrics(const std::vector<double>& sums) const override {
    return {{"character error rate", sums[0] / sums[1], true},
            {"word error rate", sums[2] / sums[3], true},
            {"beam character error rate", sums[4] / sums[1], true},
            {"beam word error rate", sums[5] / sums[3], true}};
  }

 private:
  SpeechBatch read(const std::vector<Utterance>& utterances) const;
  void judge(const LabelScores& scores, const std::string& text, std::vector<double>& sums) const;

  const SpeechData& data_;
  SpeechOptions options_;
  const Settings& settings_;
  Replica replica_;
  torch::Device device_;
  FrameShape frames_;
  SpeechModel model_;
  std::vector<uint32_t> order_;  // this rank's utterances of a pass
  size_t orderedEpoch_ = 0;
  SpeechBatch batch_;
};

void SpeechTask::prepare(size_t epoch, size_t step) {
  if (order_.empty() || orderedEpoch_ != epoch) {
    order_ = shardIndices(data_.train->size(), {settings_.seed, epoch, replica_.rank, replica_.ranks,
                                                settings_.batchSize, settings_.sharding});
    orderedEpoch_ = epoch;
  }
  std::vector<Utterance> utterances;
  for (size_t i = 0; i < settings_.batchSize; ++i)
    utterances.push_back(data_.train->read(epoch, order_.at(step * settings_.batchSize + i)));
  batch_ = read(utterances);
}

SpeechBatch SpeechTask::read(const std::vector<Utterance>& utterances) const {
  std::vector<torch::Tensor> spectrograms;
  std::vector<std::vector<Label>> texts;
  for (const auto& utterance : utterances) {
    spectrograms.push_back(spectrogram(utterance.samples, frames_));
    texts.push_back(spell(utterance.text));
  }
  return SpeechBatch::pack(spectrograms, texts).to(device_);
}

void SpeechTask::judge(const LabelScores& scores, const std::string& text, std::vector<double>& sums) const {
  const auto count = [](size_t n) { return static_cast<double>(n); };
  const auto greedy = spelled(decodeGreedy(scores)), beam = spelled(decodeBeam(scores, options_.beam, kUnlikely));
  sums[0] += count(wrongCharacters(greedy, text));
  sums[1] += count(text.size());
  sums[2] += count(wrongWords(greedy, text));
  sums[3] += count(countWords(text));
  sums[4] += count(wrongCharacters(beam, text));
  sums[5] += count(wrongWords(beam, text));
}

std::vector<double> SpeechTask::evaluate(size_t part, size_t parts) {
  std::vector<double> sums(6);
  const size_t size = data_.test->size();
  for (size_t first = part * kTestUtterances; first < size; first += parts * kTestUtterances) {
    std::vector<Utterance> utterances;
    for (size_t i = first; i < std::min(first + kTestUtterances, size); ++i)
      utterances.push_back(data_.test->read(0, i));
    const auto batch = read(utterances);
    const auto scores = model_->forward(batch, noise()).to(torch::kCPU).transpose(0, 1).contiguous();
    for (size_t i = 0; i < utterances.size(); ++i) {
      const auto steps = static_cast<size_t>(batch.steps[static_cast<int64_t>(i)].item<int64_t>());
      const auto own = scores[static_cast<int64_t>(i)];
      judge({own.data_ptr<float>(), steps, kLabels}, utterances[i].text, sums);
    }
  }
  return sums;
}

}  // namespace

std::shared_ptr<Task> makeSpeechTask(const SpeechData& data, const SpeechOptions& options, const Settings& settings,
                                     const Replica& replica) {
  return std::make_shared<SpeechTask>(data, options, settings, replica);
}

}  // namespace examples
