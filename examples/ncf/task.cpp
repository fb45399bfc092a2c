// SPDX-License-Identifier: Apache-2.0
#include "examples/ncf/task.h"

#include <torch/nn/functional/loss.h>

#include <algorithm>
#include <stdexcept>

#include "examples/common/task.h"
#include "examples/ncf/model.h"
#include "examples/ncf/samples.h"

namespace examples {

namespace {

constexpr size_t kPlaces = 10;
constexpr size_t kTestUsers = 64;  // at once

class NcfTask final : public Task {
 public:
  NcfTask(const Interactions& data, const NcfOptions& options, const Settings& settings, const Replica& replica)
      : data_(data),
        device_(replica.device),
        shard_{settings.seed,
               0,
               replica.rank,
               replica.ranks,
               settings.batchSize,
               options.negatives,
               settings.sharding == Sharding::Contiguous},
        model_(NeuMfShape{static_cast<int64_t>(data.users), static_cast<int64_t>(data.items),
                          static_cast<int64_t>(options.factors), options.dropout}) {
    if (stepsPerEpoch() == 0) throw std::runtime_error("fewer ratings than one step of all ranks needs");
    model_->to(device_);
  }

  torch::nn::Module& module() override { return *model_; }
  size_t stepsPerEpoch() const override { return TrainingSamples::stepsPerEpoch(data_, shard_); }
  size_t samplesPerStep() const override { return shard_.batchSize; }

  void prepare(size_t epoch, size_t step) override {
    shard_.epoch = epoch;
    const auto count = static_cast<int64_t>(shard_.batchSize);
    const auto users = torch::empty({count}, torch::kLong), items = torch::empty({count}, torch::kLong);
    const auto labels = torch::empty({count});
    TrainingSamples(data_, shard_)
        .read(step, users.data_ptr<int64_t>(), items.data_ptr<int64_t>(), labels.data_ptr<float>());
    users_ = users.to(device_);
    items_ = items.to(device_);
    labels_ = labels.to(device_);
  }

  torch::Tensor loss() override {
    return torch::nn::functional::binary_cross_entropy_with_logits(model_->forward(users_, items_, noise()), labels_);
  }

  std::vector<double> evaluate(size_t part, size_t parts) override;

  std::vector<Metric> metrics(const std::vector<double>& sums) const override {
    return {{"HR@10", sums[1] / sums[0], true}, {"NDCG@10", sums[2] / sums[0], false}};
  }

 private:
  const Interactions& data_;
  torch::Device device_;
  SampleShard shard_;
  NeuMf model_;
  torch::Tensor users_, items_, labels_;
};

std::vector<double> NcfTask::evaluate(size_t part, size_t parts) {
  RankingScore score(kPlaces);
  const size_t each = 1 + data_.negatives();
  for (size_t first = part * kTestUsers; first < data_.users; first += parts * kTestUsers) {
    const size_t last = std::min(first + kTestUsers, data_.users);
    std::vector<int64_t> users, items;
    for (size_t user = first; user < last; ++user) {
      users.insert(users.end(), each, static_cast<int64_t>(user));
      items.push_back(data_.testItems[user]);
      const auto negative = data_.testNegatives.begin() + static_cast<std::ptrdiff_t>(user * data_.negatives());
      items.insert(items.end(), negative, negative + static_cast<std::ptrdiff_t>(data_.negatives()));
    }
    const auto scores = model_->forward(torch::tensor(users, device_), torch::tensor(items, device_), noise())
                            .to(torch::kCPU, torch::kFloat);
    for (size_t i = 0; i < last - first; ++i) score.add(scores.data_ptr<float>() + i * each, data_.negatives());
  }
  return {static_cast<double>(score.users()), score.hits(), score.gain()};
}

}  // namespace

std::shared_ptr<Task> makeNcfTask(const Interactions& data, const NcfOptions& options, const Settings& settings,
                                  const Replica& replica) {
  return std::make_shared<NcfTask>(data, options, settings, replica);
}

}  // namespace examples
