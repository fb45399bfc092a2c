// SPDX-License-Identifier: Apache-2.0
// Networks without shortcuts: VGG (Simonyan and Zisserman 2015), AlexNet (Krizhevsky et al. 2012), GoogLeNet (Szegedy
// et al. 2015) and a small one for digits.
#include <torch/nn.h>

#include <string>
#include <vector>

#include "examples/cnn/models.h"
#include "examples/common/dropout.h"

namespace examples {

namespace nn = torch::nn;

namespace {

constexpr int64_t kPool = 0;  // in a list of channels

nn::Conv2d conv(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t padding) {
  return nn::Conv2d(nn::Conv2dOptions(in, out, kernel).stride(stride).padding(padding));
}

nn::MaxPool2d pool(int64_t kernel, int64_t stride, int64_t padding = 0) {
  return nn::MaxPool2d(nn::MaxPool2dOptions(kernel).stride(stride).padding(padding));
}

/// Features, flattened, then a head.
class PlainNet : public Classifier {
 public:
  torch::Tensor forward(torch::Tensor images) override { return head_->forward(features_->forward(images).flatten(1)); }

 protected:
  void finish() {
    register_module("features", features_);
    register_module("head", head_);
  }

  // Two hidden layers of 4096 behind side x side features, as published for ImageNet.
  void addLargeHead(int64_t channels, int64_t side, const ModelShape& shape, bool dropFirst) {
    constexpr int64_t kHidden = 4096;
    features_->push_back(nn::AdaptiveAvgPool2d(nn::AdaptiveAvgPool2dOptions({side, side})));
    int64_t in = channels * side * side;
    for (int layer = 0; layer < 2; ++layer) {
      if (dropFirst) head_->push_back(Dropout(0.5, *shape.noise));
      head_->push_back(nn::Linear(in, kHidden));
      head_->push_back(nn::ReLU());
      if (!dropFirst) head_->push_back(Dropout(0.5, *shape.noise));
      in = kHidden;
    }
    head_->push_back(nn::Linear(in, shape.classes));
  }

  nn::Sequential features_, head_;
};

class Vgg : public PlainNet {
 public:
  Vgg(const std::vector<int64_t>& plan, bool normalised, const ModelShape& shape) {
    auto in = static_cast<int64_t>(shape.image.channels);
    for (const int64_t channels : plan) {
      if (channels == kPool) {
        features_->push_back(pool(2, 2));
        continue;
      }
      features_->push_back(conv(in, channels, 3, 1, 1));
      if (normalised) features_->push_back(nn::BatchNorm2d(channels));
      features_->push_back(nn::ReLU());
      in = channels;
    }
    if (shape.large()) {
      addLargeHead(in, 7, shape, false);
    } else {
      features_->push_back(nn::AdaptiveAvgPool2d(nn::AdaptiveAvgPool2dOptions({1, 1})));
      head_->push_back(nn::Linear(in, shape.classes));
    }
    finish();
  }
};

const std::vector<int64_t> kVgg16{64,    64,  kPool, 128, 128,   kPool, 256, 256, 256,
                                  kPool, 512, 512,   512, kPool, 512,   512, 512, kPool};
const std::vector<int64_t> kVgg19{64,  64,  kPool, 128, 128,   kPool, 256, 256, 256, 256,  kPool,
                                  512, 512, 512,   512, kPool, 512,   512, 512, 512, kPool};

std::shared_ptr<Classifier> vgg16(const ModelShape& shape) { return std::make_shared<Vgg>(kVgg16, true, shape); }
std::shared_ptr<Classifier> vgg19(const ModelShape& shape) { return std::make_shared<Vgg>(kVgg19, false, shape); }
std::shared_ptr<Classifier> vgg19Bn(const ModelShape& shape) { return std::make_shared<Vgg>(kVgg19, true, shape); }

class AlexNet : public PlainNet {
 public:
  explicit AlexNet(const ModelShape& shape) {
    const int64_t kernel = shape.large() ? 3 : 2;  // of pools
    const int64_t first = shape.large() ? 2 : 5;
    features_->push_back(conv(static_cast<int64_t>(shape.image.channels), 64, 11, 4, first));
    features_->push_back(nn::ReLU());
    features_->push_back(pool(kernel, 2));
    features_->push_back(conv(64, 192, 5, 1, 2));
    features_->push_back(nn::ReLU());
    features_->push_back(pool(kernel, 2));
    int64_t in = 192;
    for (const int64_t channels : {384, 256, 256}) {
      features_->push_back(conv(in, channels, 3, 1, 1));
      features_->push_back(nn::ReLU());
      in = channels;
    }
    features_->push_back(pool(kernel, 2));
    if (shape.large()) {
      addLargeHead(in, 6, shape, true);
    } else {
      features_->push_back(nn::AdaptiveAvgPool2d(nn::AdaptiveAvgPool2dOptions({1, 1})));
      head_->push_back(nn::Linear(in, shape.classes));
    }
    finish();
  }
};

std::shared_ptr<Classifier> alexNet(const ModelShape& shape) { return std::make_shared<AlexNet>(shape); }

// ---- GoogLeNet ----

void addNormalised(nn::Sequential& path, int64_t in, int64_t out, int64_t kernel) {
  path->push_back(conv(in, out, kernel, 1, kernel / 2));
  path->push_back(nn::BatchNorm2d(out));
  path->push_back(nn::ReLU());
}

/// Channels of the four paths: 1x1; reduced and 3x3; reduced and two 3x3 for 5x5; pooled.
struct Inception {
  int64_t in, one, reduced3, three, reduced5, five, pooled;

  int64_t out() const { return one + three + five + pooled; }
};

class InceptionBlockImpl : public nn::Module {
 public:
  explicit InceptionBlockImpl(const Inception& plan) {
    addNormalised(paths_[0], plan.in, plan.one, 1);
    addNormalised(paths_[1], plan.in, plan.reduced3, 1);
    addNormalised(paths_[1], plan.reduced3, plan.three, 3);
    addNormalised(paths_[2], plan.in, plan.reduced5, 1);
    addNormalised(paths_[2], plan.reduced5, plan.five, 3);
    addNormalised(paths_[2], plan.five, plan.five, 3);
    paths_[3]->push_back(pool(3, 1, 1));
    addNormalised(paths_[3], plan.in, plan.pooled, 1);
    for (size_t i = 0; i < paths_.size(); ++i) register_module("path" + std::to_string(i), paths_[i]);
  }

  torch::Tensor forward(torch::Tensor input) {
    std::vector<torch::Tensor> outputs;
    for (auto& path : paths_) outputs.push_back(path->forward(input));
    return torch::cat(outputs, 1);
  }

 private:
  std::vector<nn::Sequential> paths_{nn::Sequential(), nn::Sequential(), nn::Sequential(), nn::Sequential()};
};
TORCH_MODULE(InceptionBlock);

class GoogLeNet : public PlainNet {
 public:
  explicit GoogLeNet(const ModelShape& shape) {
    addNormalised(features_, static_cast<int64_t>(shape.image.channels), 192, 3);
    const std::vector<std::vector<Inception>> stages{
        {{192, 64, 96, 128, 16, 32, 32}, {256, 128, 128, 192, 32, 96, 64}},
        {{480, 192, 96, 208, 16, 48, 64},
         {512, 160, 112, 224, 24, 64, 64},
         {512, 128, 128, 256, 24, 64, 64},
         {512, 112, 144, 288, 32, 64, 64},
         {528, 256, 160, 320, 32, 128, 128}},
        {{832, 256, 160, 320, 32, 128, 128}, {832, 384, 192, 384, 48, 128, 128}}};
    for (size_t stage = 0; stage < stages.size(); ++stage) {
      if (stage > 0) features_->push_back(pool(3, 2, 1));
      for (const auto& plan : stages[stage]) features_->push_back(InceptionBlock(plan));
    }
    features_->push_back(nn::AdaptiveAvgPool2d(nn::AdaptiveAvgPool2dOptions({1, 1})));
    head_->push_back(nn::Linear(stages.back().back().out(), shape.classes));
    finish();
  }
};

std::shared_ptr<Classifier> googLeNet(const ModelShape& shape) { return std::make_shared<GoogLeNet>(shape); }

// ---- digits ----

class MnistNet : public PlainNet {
 public:
  explicit MnistNet(const ModelShape& shape) {
    features_->push_back(conv(static_cast<int64_t>(shape.image.channels), 10, 5, 1, 0));
    features_->push_back(pool(2, 2));
    features_->push_back(nn::ReLU());
    features_->push_back(conv(10, 20, 5, 1, 0));
    features_->push_back(Dropout(0.5, *shape.noise));
    features_->push_back(pool(2, 2));
    features_->push_back(nn::ReLU());
    features_->push_back(nn::AdaptiveAvgPool2d(nn::AdaptiveAvgPool2dOptions({4, 4})));
    head_->push_back(nn::Linear(320, 50));
    head_->push_back(nn::ReLU());
    head_->push_back(Dropout(0.5, *shape.noise));
    head_->push_back(nn::Linear(50, shape.classes));
    finish();
  }
};

std::shared_ptr<Classifier> mnistNet(const ModelShape& shape) { return std::make_shared<MnistNet>(shape); }

}  // namespace

const std::vector<ModelEntry> kPlainModels{{"vgg16", vgg16, 32},        {"vgg19", vgg19, 32},
                                           {"vgg19-bn", vgg19Bn, 32},   {"alexnet", alexNet, 32},
                                           {"googlenet", googLeNet, 8}, {"mnistnet", mnistNet, 28}};

}  // namespace examples
