// SPDX-License-Identifier: Apache-2.0
// Residual networks (He et al. 2016), and squeeze-and-excitation in one (Hu et al. 2018), with the parameter counts of
// the trainers that sparsification was published with.
#include <torch/nn.h>

#include <array>
#include <stdexcept>

#include "examples/cnn/models.h"

namespace examples {

namespace nn = torch::nn;

namespace {

constexpr int64_t kExpansion = 4;  // of bottleneck blocks
constexpr int64_t kSqueeze = 16;   // channels per unit of the excitation's hidden layer

nn::Conv2d conv(int64_t in, int64_t out, int64_t kernel, int64_t stride) {
  return nn::Conv2d(nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false));
}

enum class Block {
  Plain,       // two 3x3 convolutions; shortcuts that change shape skip pixels and pad channels: no parameters
  Projecting,  // the same with 1x1 convolutions as such shortcuts
  Bottleneck,  // 1x1, 3x3, 1x1 to four times the channels
  Squeezing    // normalised before, and scaled by squeeze and excitation
};

/// What a stage is made of.
class Residual : public nn::Module {
 public:
  virtual torch::Tensor forward(const torch::Tensor& input) = 0;
};

class BasicBlock : public Residual {
 public:
  BasicBlock(int64_t in, int64_t out, int64_t stride, bool projecting)
      : stride_(stride),
        missing_(out - in),
        conv1_(register_module("conv1", conv(in, out, 3, stride))),
        conv2_(register_module("conv2", conv(out, out, 3, 1))),
        norm1_(register_module("norm1", nn::BatchNorm2d(out))),
        norm2_(register_module("norm2", nn::BatchNorm2d(out))) {
    if (projecting && (stride != 1 || missing_ != 0))
      projection_ = register_module("projection", nn::Sequential(conv(in, out, 1, stride), nn::BatchNorm2d(out)));
  }

  torch::Tensor forward(const torch::Tensor& input) override {
    auto hidden = norm1_(conv1_(input)).relu_();
    hidden = norm2_(conv2_(hidden));
    hidden += shortcut(input);
    return hidden.relu_();
  }

 private:
  torch::Tensor shortcut(const torch::Tensor& input) {
    if (!projection_.is_empty()) return projection_->forward(input);
    if (stride_ == 1 && missing_ == 0) return input;
    const auto thinned = input.slice(2, {}, {}, stride_).slice(3, {}, {}, stride_);
    return torch::constant_pad_nd(thinned, {0, 0, 0, 0, missing_ / 2, missing_ - missing_ / 2});
  }

  int64_t stride_, missing_;
  nn::Conv2d conv1_, conv2_;
  nn::BatchNorm2d norm1_, norm2_;
  nn::Sequential projection_{nullptr};
};

class BottleneckBlock : public Residual {
 public:
  BottleneckBlock(int64_t in, int64_t inner, int64_t stride)
      : path_(register_module(
            "path", nn::Sequential(conv(in, inner, 1, 1), nn::BatchNorm2d(inner), nn::ReLU(),
                                   conv(inner, inner, 3, stride), nn::BatchNorm2d(inner), nn::ReLU(),
                                   conv(inner, inner * kExpansion, 1, 1), nn::BatchNorm2d(inner * kExpansion)))) {
    const int64_t out = inner * kExpansion;
    if (stride != 1 || in != out)
      projection_ = register_module("projection", nn::Sequential(conv(in, out, 1, stride), nn::BatchNorm2d(out)));
  }

  torch::Tensor forward(const torch::Tensor& input) override {
    auto hidden = path_->forward(input);
    hidden += projection_.is_empty() ? input : projection_->forward(input);
    return hidden.relu_();
  }

 private:
  nn::Sequential path_;
  nn::Sequential projection_{nullptr};
};

class SqueezingBlock : public Residual {
 public:
  SqueezingBlock(int64_t in, int64_t out, int64_t stride)
      : norm1_(register_module("norm1", nn::BatchNorm2d(in))),
        norm2_(register_module("norm2", nn::BatchNorm2d(out))),
        conv1_(register_module("conv1", conv(in, out, 3, stride))),
        conv2_(register_module("conv2", conv(out, out, 3, 1))),
        squeeze_(register_module("squeeze", nn::Linear(out, out / kSqueeze))),
        excite_(register_module("excite", nn::Linear(out / kSqueeze, out))) {
    if (stride != 1 || in != out) projection_ = register_module("projection", conv(in, out, 1, stride));
  }

  torch::Tensor forward(const torch::Tensor& input) override {
    const auto active = norm1_(input).relu_();
    auto hidden = conv1_(active);
    hidden = conv2_(norm2_(hidden).relu_());
    const auto scale = excite_(squeeze_(hidden.mean({2, 3})).relu_()).sigmoid_();
    return hidden * scale.unsqueeze(2).unsqueeze(3) + (projection_.is_empty() ? input : projection_(active));
  }

 private:
  nn::BatchNorm2d norm1_, norm2_;
  nn::Conv2d conv1_, conv2_;
  nn::Linear squeeze_, excite_;
  nn::Conv2d projection_{nullptr};
};

/// A stage of no blocks does not exist.
struct Plan {
  Block block;
  int64_t stem;
  std::array<int64_t, 4> blocks, channels;
};

std::shared_ptr<Residual> makeBlock(Block kind, int64_t in, int64_t channels, int64_t stride) {
  switch (kind) {
    case Block::Bottleneck:
      return std::make_shared<BottleneckBlock>(in, channels, stride);
    case Block::Squeezing:
      return std::make_shared<SqueezingBlock>(in, channels, stride);
    default:
      return std::make_shared<BasicBlock>(in, channels, stride, kind == Block::Projecting);
  }
}

class ResNet : public Classifier {
 public:
  ResNet(const Plan& plan, const ModelShape& shape) {
    const auto channels = static_cast<int64_t>(shape.image.channels);
    stem_->push_back(shape.large() ? conv(channels, plan.stem, 7, 2) : conv(channels, plan.stem, 3, 1));
    stem_->push_back(nn::BatchNorm2d(plan.stem));
    stem_->push_back(nn::ReLU());
    if (shape.large()) stem_->push_back(nn::MaxPool2d(nn::MaxPool2dOptions(3).stride(2).padding(1)));
    register_module("stem", stem_);
    const int64_t last = addStages(plan);
    classifier_ = register_module("classifier", nn::Linear(last, shape.classes));
    initialize();
  }

  torch::Tensor forward(torch::Tensor images) override {
    auto hidden = stem_->forward(images);
    for (const auto& block : blocks_) hidden = block->forward(hidden);
    return classifier_(hidden.mean({2, 3}));
  }

 private:
  int64_t addStages(const Plan& plan) {
    int64_t in = plan.stem;
    for (size_t stage = 0; stage < plan.blocks.size(); ++stage) {
      for (int64_t i = 0; i < plan.blocks[stage]; ++i) {
        const int64_t stride = stage > 0 && i == 0 ? 2 : 1;
        auto block = makeBlock(plan.block, in, plan.channels[stage], stride);
        blocks_.push_back(register_module("block" + std::to_string(blocks_.size()), block));
        in = plan.channels[stage] * (plan.block == Block::Bottleneck ? kExpansion : 1);
      }
    }
    return in;
  }

  // Kaiming-normal convolutions (He et al. 2015); batch norm and the classifier keep torch's defaults.
  void initialize() {
    const torch::NoGradGuard noGrad;
    for (const auto& module : modules(false)) {
      if (auto* layer = module->as<nn::Conv2d>())
        nn::init::kaiming_normal_(layer->weight, 0.0, torch::kFanOut, torch::kReLU);
    }
  }

  nn::Sequential stem_;
  std::vector<std::shared_ptr<Residual>> blocks_;
  nn::Linear classifier_{nullptr};
};

// Depth 6 n + 2, for CIFAR.
template <int64_t Depth>
std::shared_ptr<Classifier> thin(const ModelShape& shape) {
  constexpr int64_t n = (Depth - 2) / 6;
  return std::make_shared<ResNet>(Plan{Block::Plain, 16, {n, n, n, 0}, {16, 32, 64, 0}}, shape);
}

template <Block Kind, int64_t... Blocks>
std::shared_ptr<Classifier> wide(const ModelShape& shape) {
  return std::make_shared<ResNet>(Plan{Kind, 64, {Blocks...}, {64, 128, 256, 512}}, shape);
}

}  // namespace

const std::vector<ModelEntry> kResidualModels{{"resnet20", thin<20>, 8},
                                              {"resnet56", thin<56>, 8},
                                              {"resnet110", thin<110>, 8},
                                              {"resnet18", wide<Block::Projecting, 2, 2, 2, 2>, 16},
                                              {"resnet50", wide<Block::Bottleneck, 3, 4, 6, 3>, 16},
                                              {"resnet152", wide<Block::Bottleneck, 3, 8, 36, 3>, 16},
                                              {"senet18", wide<Block::Squeezing, 2, 2, 2, 2>, 16}};

std::shared_ptr<Classifier> makeModel(const std::string& name, const ModelShape& shape) {
  for (const auto* models : {&kResidualModels, &kPlainModels}) {
    for (const auto& model : *models) {
      if (name != model.name) continue;
      if (shape.image.height < model.smallestSide || shape.image.width < model.smallestSide)
        throw std::invalid_argument(name + " needs images of at least " + std::to_string(model.smallestSide) + " x " +
                                    std::to_string(model.smallestSide));
      return model.make(shape);
    }
  }
  throw std::invalid_argument("unknown model '" + name + "'");
}

}  // namespace examples
