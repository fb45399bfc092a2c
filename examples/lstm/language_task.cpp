// SPDX-License-Identifier: Apache-2.0
#include <torch/nn/functional/loss.h>
#include <torch/nn/utils/clip_grad.h>

#include <cmath>

#include "examples/common/task.h"
#include "examples/lstm/models.h"
#include "examples/lstm/tasks.h"

namespace examples {

namespace {

// The text is read in so many columns whatever the number of ranks, so that their results can be compared.
constexpr size_t kTestColumns = 16;

class LanguageTask final : public Task {
 public:
  LanguageTask(const Corpus& corpus, const RecurrentOptions& options, const Settings& settings, const Replica& replica)
      : options_(options),
        device_(replica.device),
        columns_(columnsOf(replica.rank, replica.ranks, settings.batchSize, settings.sharding == Sharding::Contiguous)),
        train_(corpus.train, settings.batchSize * replica.ranks, options.steps),
        test_(options.onTest ? corpus.test : corpus.valid, kTestColumns, options.steps),
        model_(RecurrentShape{static_cast<int64_t>(corpus.vocabulary), static_cast<int64_t>(options.width),
                              static_cast<int64_t>(options.layers), options.dropout}) {
    model_->to(device_);
    state_ = model_->zeroState(static_cast<int64_t>(columns_.size()));
  }

  torch::nn::Module& module() override { return *model_; }
  size_t stepsPerEpoch() const override { return train_.steps(); }
  size_t samplesPerStep() const override { return columns_.size() * options_.steps; }

  void prepare(size_t, size_t step) override {
    if (step == 0) state_ = model_->zeroState(static_cast<int64_t>(columns_.size()));
    batch_ = read(train_, step, columns_);
  }

  torch::Tensor loss() override {
    return torch::nn::functional::cross_entropy(model_->forward(batch_.words, state_, noise()), batch_.targets);
  }

  void afterBackward() override {
    if (options_.clip > 0) torch::nn::utils::clip_grad_norm_(model_->parameters(), options_.clip);
  }

  std::vector<double> evaluate(size_t part, size_t parts) override;

  std::vector<Metric> metrics(const std::vector<double>& sums) const override {
    const double loss = sums[0] / sums[1];
    return {{options_.onTest ? "test perplexity" : "validation perplexity", std::exp(loss), false}};
  }

  void save(torch::serialize::OutputArchive& archive) const override {
    for (size_t i = 0; i < state_.size(); ++i) {
      archive.write("hidden" + std::to_string(i), std::get<0>(state_[i]), true);
      archive.write("cell" + std::to_string(i), std::get<1>(state_[i]), true);
    }
  }

  void load(torch::serialize::InputArchive& archive) override {
    for (size_t i = 0; i < state_.size(); ++i) {
      archive.read("hidden" + std::to_string(i), std::get<0>(state_[i]), true);
      archive.read("cell" + std::to_string(i), std::get<1>(state_[i]), true);
    }
  }

 private:
  struct Batch {
    torch::Tensor words, targets;
  };

  Batch read(const TextColumns& text, size_t step, const std::vector<size_t>& columns) const {
    const auto rows = static_cast<int64_t>(options_.steps), width = static_cast<int64_t>(columns.size());
    const auto words = torch::empty({rows, width}, torch::kLong), targets = torch::empty({rows * width}, torch::kLong);
    text.read(step, columns, words.data_ptr<int64_t>(), targets.data_ptr<int64_t>());
    return {words.to(device_), targets.to(device_)};
  }

  RecurrentOptions options_;
  torch::Device device_;
  std::vector<size_t> columns_;
  TextColumns train_, test_;
  LanguageModel model_;
  RecurrentState state_;
  Batch batch_;
};

std::vector<double> LanguageTask::evaluate(size_t part, size_t parts) {
  std::vector<size_t> columns;
  for (size_t column = part; column < kTestColumns; column += parts) columns.push_back(column);
  std::vector<double> sums(2);
  if (columns.empty()) return sums;
  auto state = model_->zeroState(static_cast<int64_t>(columns.size()));
  for (size_t step = 0; step < test_.steps(); ++step) {
    const auto batch = read(test_, step, columns);
    const auto scores = model_->forward(batch.words, state, noise());
    sums[0] += torch::cross_entropy_loss(scores, batch.targets, {}, at::Reduction::Sum).item<double>();
    sums[1] += static_cast<double>(batch.targets.numel());
  }
  return sums;
}

}  // namespace

std::shared_ptr<Task> makeLanguageTask(const Corpus& corpus, const RecurrentOptions& options, const Settings& settings,
                                       const Replica& replica) {
  return std::make_shared<LanguageTask>(corpus, options, settings, replica);
}

}  // namespace examples
