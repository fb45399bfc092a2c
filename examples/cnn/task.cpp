// SPDX-License-Identifier: Apache-2.0
#include "examples/common/task.h"

#include <torch/nn/functional/loss.h>
#include <torch/utils.h>

#include <algorithm>
#include <stdexcept>

#include "examples/cnn/models.h"
#include "examples/cnn/program.h"
#include "examples/common/shard.h"

namespace examples {

namespace {

constexpr size_t kTestBatch = 250;
constexpr uint64_t kAugmentStream = 5;
constexpr int64_t kTop = 5;

enum Sum : size_t { kRight, kRightInTop, kImages, kSums };

/// Images and labels of one batch; the tensors are copies in the layout and on the device of the model.
struct Batch {
  std::vector<float> pixels;
  std::vector<int64_t> labels;
  torch::Tensor images, targets;

  void reserve(size_t count, const ImageShape& shape) {
    pixels.resize(count * shape.pixels());
    labels.resize(count);
  }

  // Channels last is the layout in which oneDNN's kernels need no reorder.
  void moveTo(const torch::Device& device, const ImageShape& shape) {
    const auto count = static_cast<int64_t>(labels.size());
    images = torch::from_blob(pixels.data(), {count, static_cast<int64_t>(shape.channels),
                                              static_cast<int64_t>(shape.height), static_cast<int64_t>(shape.width)})
                 .to(device)
                 .contiguous(at::MemoryFormat::ChannelsLast);
    targets = torch::from_blob(labels.data(), {count}, torch::kLong).to(device, torch::kLong, false, true);
  }
};

class CnnTask : public Task {
 public:
  CnnTask(const std::string& model, const ImageData& data, const Settings& settings, const Replica& replica)
      : data_(data), device_(replica.device), shard_{settings.seed,      0,
                                                     replica.rank,       replica.ranks,
                                                     settings.batchSize, settings.sharding} {
    if (settings.batchSize < 2) throw std::invalid_argument("--batch-size: batch norm needs two images or more");
    model_ = makeModel(model, {data.train->shape(), static_cast<int64_t>(data.classes), &noise()});
    model_->to(device_);
    const torch::NoGradGuard noGrad;
    for (auto& parameter : model_->parameters())
      if (parameter.dim() == 4) parameter.set_data(parameter.contiguous(at::MemoryFormat::ChannelsLast));
  }

  torch::nn::Module& module() override { return *model_; }
  size_t stepsPerEpoch() const override {
    return examples::stepsPerEpoch(data_.train->size(), shard_.ranks, shard_.batchSize);
  }
  size_t samplesPerStep() const override { return shard_.batchSize; }

  void prepare(size_t epoch, size_t step) override {
    if (order_.empty() || shard_.epoch != epoch) {
      shard_.epoch = epoch;
      order_ = shardIndices(data_.train->size(), shard_);
    }
    const auto shape = data_.train->shape();
    batch_.reserve(shard_.batchSize, shape);
    for (size_t i = 0; i < shard_.batchSize; ++i) {
      const size_t index = order_.at(step * shard_.batchSize + i);
      Random random(shard_.seed, kAugmentStream + epoch, 1 + index);
      data_.train->train(index, random, batch_.pixels.data() + i * shape.pixels());
      batch_.labels[i] = data_.train->label(index);
    }
    batch_.moveTo(device_, shape);
  }

  torch::Tensor loss() override {
    return torch::nn::functional::cross_entropy(model_->forward(batch_.images), batch_.targets);
  }

  std::vector<double> evaluate(size_t part, size_t parts) override {
    std::vector<double> sums(kSums);
    const size_t size = data_.test->size();
    for (size_t first = part * kTestBatch; first < size; first += parts * kTestBatch)
      addTo(sums, first, std::min(kTestBatch, size - first));
    return sums;
  }

  std::vector<Metric> metrics(const std::vector<double>& sums) const override {
    if (sums[kImages] == 0) throw std::runtime_error("there are no test images");
    return {accuracy(sums[kRight], sums[kImages], data_.classes),
            {"top-5 accuracy", sums[kRightInTop] / sums[kImages], true}};
  }

 private:
  void addTo(std::vector<double>& sums, size_t first, size_t count) {
    const auto shape = data_.test->shape();
    Batch batch;
    batch.reserve(count, shape);
    for (size_t i = 0; i < count; ++i) {
      data_.test->test(first + i, batch.pixels.data() + i * shape.pixels());
      batch.labels[i] = data_.test->label(first + i);
    }
    batch.moveTo(device_, shape);
    const auto scores = model_->forward(batch.images);
    const auto best = std::get<1>(scores.topk(std::min(kTop, scores.size(1)), 1));
    const auto hits = best.eq(batch.targets.unsqueeze(1)).to(torch::kLong);
    sums[kRight] += static_cast<double>(hits.select(1, 0).sum().item<int64_t>());
    sums[kRightInTop] += static_cast<double>(hits.sum().item<int64_t>());
    sums[kImages] += static_cast<double>(count);
  }

  const ImageData& data_;
  torch::Device device_;
  Shard shard_;
  std::vector<uint32_t> order_;
  Batch batch_;
  std::shared_ptr<Classifier> model_;
};

}  // namespace

std::shared_ptr<Task> CnnProgram::makeTask(const Settings& settings, const Replica& replica) const {
  return std::make_shared<CnnTask>(model_, data_, settings, replica);
}

}  // namespace examples
