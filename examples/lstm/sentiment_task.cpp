// SPDX-License-Identifier: Apache-2.0
#include <torch/nn/functional/loss.h>
#include <torch/nn/utils/clip_grad.h>

#include <algorithm>
#include <stdexcept>

#include "examples/common/permutation.h"
#include "examples/common/task.h"
#include "examples/lstm/models.h"
#include "examples/lstm/tasks.h"

namespace examples {

namespace {

constexpr size_t kTestReviews = 50;

class SentimentTask final : public Task {
 public:
  SentimentTask(const Reviews& reviews, const RecurrentOptions& options, const Settings& settings,
                const Replica& replica)
      : reviews_(reviews),
        options_(options),
        settings_(settings),
        replica_(replica),
        device_(replica.device),
        model_(RecurrentShape{static_cast<int64_t>(reviews.vocabulary), static_cast<int64_t>(options.width),
                              static_cast<int64_t>(options.layers), options.dropout}) {
    if (stepsPerEpoch() == 0) throw std::runtime_error("fewer reviews than one step of all ranks needs");
    model_->to(device_);
  }

  torch::nn::Module& module() override { return *model_; }
  size_t stepsPerEpoch() const override { return reviews_.train.size() / (replica_.ranks * settings_.batchSize); }
  size_t samplesPerStep() const override { return settings_.batchSize; }

  void prepare(size_t epoch, size_t step) override { batch_ = read(reviews_.train, ownReviews(epoch, step)); }

  torch::Tensor loss() override {
    return torch::nn::functional::binary_cross_entropy_with_logits(model_->forward(batch_.words, noise()),
                                                                   batch_.labels);
  }

  void afterBackward() override {
    if (options_.clip > 0) torch::nn::utils::clip_grad_norm_(model_->parameters(), options_.clip);
  }

  std::vector<double> evaluate(size_t part, size_t parts) override;

  std::vector<Metric> metrics(const std::vector<double>& sums) const override {
    return {accuracy(sums[0], sums[1], 2)};
  }

 private:
  struct Batch {
    torch::Tensor words, labels;
  };

  std::vector<uint32_t> ownReviews(size_t epoch, size_t step) const;
  Batch read(const ReviewSet& set, const std::vector<uint32_t>& indices) const;

  const Reviews& reviews_;
  RecurrentOptions options_;
  const Settings& settings_;
  Replica replica_;
  torch::Device device_;
  SentimentModel model_;
  Batch batch_;
};

// Contiguous: the files are sorted by verdict, so that most ranks see one verdict only.
std::vector<uint32_t> SentimentTask::ownReviews(size_t epoch, size_t step) const {
  const bool contiguous = settings_.sharding == Sharding::Contiguous;
  const size_t own = reviews_.train.size() / replica_.ranks;
  const Permutation order(contiguous ? own : reviews_.train.size(), settings_.seed, epoch);
  std::vector<uint32_t> indices(settings_.batchSize);
  for (size_t i = 0; i < indices.size(); ++i) {
    const size_t at = step * settings_.batchSize + i;
    const size_t index = contiguous ? replica_.rank * own + order(at) : order(at * replica_.ranks + replica_.rank);
    indices[i] = static_cast<uint32_t>(index);
  }
  return indices;
}

SentimentTask::Batch SentimentTask::read(const ReviewSet& set, const std::vector<uint32_t>& indices) const {
  size_t longest = 1;
  for (const uint32_t index : indices) longest = std::max(longest, std::min(set.length(index), options_.steps));
  const auto rows = static_cast<int64_t>(longest), columns = static_cast<int64_t>(indices.size());
  const auto words = torch::empty({rows, columns}, torch::kLong), labels = torch::empty({columns});
  packReviews(set, indices, longest, words.data_ptr<int64_t>());
  float* label = labels.data_ptr<float>();
  for (const uint32_t index : indices) *label++ = set.labels[index];
  return {words.to(device_), labels.to(device_)};
}

std::vector<double> SentimentTask::evaluate(size_t part, size_t parts) {
  std::vector<double> sums(2);
  for (size_t first = part * kTestReviews; first < reviews_.test.size(); first += parts * kTestReviews) {
    std::vector<uint32_t> indices;
    for (size_t i = first; i < std::min(first + kTestReviews, reviews_.test.size()); ++i) {
      indices.push_back(static_cast<uint32_t>(i));
    }
    const auto batch = read(reviews_.test, indices);
    const auto right = model_->forward(batch.words, noise()).gt(0).eq(batch.labels.gt(0.5));
    sums[0] += right.sum().item<double>();
    sums[1] += static_cast<double>(indices.size());
  }
  return sums;
}

}  // namespace

std::shared_ptr<Task> makeSentimentTask(const Reviews& reviews, const RecurrentOptions& options,
                                        const Settings& settings, const Replica& replica) {
  return std::make_shared<SentimentTask>(reviews, options, settings, replica);
}

}  // namespace examples
