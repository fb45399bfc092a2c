// SPDX-License-Identifier: Apache-2.0
#include "examples/cnn/resnet.h"

#include <stdexcept>

namespace examples {

namespace nn = torch::nn;

namespace {

constexpr int64_t kClasses = 10;
constexpr ResNetShape kResNet20{16, {3, 3, 3, 0}, {16, 32, 64, 0}, Shortcut::PadChannels};
constexpr ResNetShape kResNet18{64, {2, 2, 2, 2}, {64, 128, 256, 512}, Shortcut::Projection};

nn::Conv2d conv(int64_t in, int64_t out, int64_t kernel, int64_t stride) {
  return nn::Conv2d(nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false));
}

}  // namespace

BasicBlockImpl::BasicBlockImpl(int64_t inChannels, int64_t outChannels, int64_t stride, Shortcut shortcutKind)
    : stride_(stride),
      missingChannels_(outChannels - inChannels),
      conv1_(register_module("conv1", conv(inChannels, outChannels, 3, stride))),
      conv2_(register_module("conv2", conv(outChannels, outChannels, 3, 1))),
      norm1_(register_module("norm1", nn::BatchNorm2d(outChannels))),
      norm2_(register_module("norm2", nn::BatchNorm2d(outChannels))) {
  const bool changesShape = stride != 1 || missingChannels_ != 0;
  if (changesShape && shortcutKind == Shortcut::Projection) {
    projection_ = register_module(
        "projection", nn::Sequential(conv(inChannels, outChannels, 1, stride), nn::BatchNorm2d(outChannels)));
  }
}

torch::Tensor BasicBlockImpl::shortcut(const torch::Tensor& input) {
  if (!projection_.is_empty()) return projection_->forward(input);
  if (stride_ == 1 && missingChannels_ == 0) return input;
  const auto half = missingChannels_ / 2;
  const auto thinned = input.slice(2, {}, {}, stride_).slice(3, {}, {}, stride_);
  return torch::constant_pad_nd(thinned, {0, 0, 0, 0, half, missingChannels_ - half});
}

torch::Tensor BasicBlockImpl::forward(const torch::Tensor& input) {
  auto hidden = norm1_(conv1_(input)).relu_();
  hidden = norm2_(conv2_(hidden));
  hidden += shortcut(input);
  return hidden.relu_();
}

ResNetImpl::ResNetImpl(const ResNetShape& shape, int64_t classes)
    : stem_(register_module("stem", conv(3, shape.stemChannels, 3, 1))),
      stemNorm_(register_module("stemNorm", nn::BatchNorm2d(shape.stemChannels))) {
  int64_t channels = shape.stemChannels;
  for (size_t stage = 0; stage < shape.blocks.size(); ++stage) {
    for (int64_t block = 0; block < shape.blocks[stage]; ++block) {
      const int64_t stride = stage > 0 && block == 0 ? 2 : 1;
      stages_->push_back(BasicBlock(channels, shape.channels[stage], stride, shape.shortcut));
      channels = shape.channels[stage];
    }
  }
  register_module("stages", stages_);
  classifier_ = register_module("classifier", nn::Linear(channels, classes));
  initialize();
}

// Kaiming-normal convolutions (He et al. 2015); batch norm and the classifier keep torch's defaults.
void ResNetImpl::initialize() {
  torch::NoGradGuard noGrad;
  for (const auto& module : modules(false)) {
    if (auto* layer = module->as<nn::Conv2d>()) {
      nn::init::kaiming_normal_(layer->weight, 0.0, torch::kFanOut, torch::kReLU);
    }
  }
}

torch::Tensor ResNetImpl::forward(const torch::Tensor& images) {
  auto hidden = stemNorm_(stem_(images)).relu_();
  hidden = stages_->forward(hidden);
  hidden = hidden.mean({2, 3});
  return classifier_(hidden);
}

ResNet makeResNet(const std::string& name, uint64_t seed) {
  torch::manual_seed(seed);
  if (name == "resnet20") return ResNet(kResNet20, kClasses);
  if (name == "resnet18") return ResNet(kResNet18, kClasses);
  throw std::invalid_argument("unknown model '" + name + "': resnet20 or resnet18");
}

}  // namespace examples
