// SPDX-License-Identifier: Apache-2.0
// The two residual networks of the CIFAR-10 trainer (He et al. 2016), without anything that depends on sparsecoll.
#pragma once

#include <torch/nn.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>

namespace examples {

enum class Shortcut {
  PadChannels,  // option A: every second pixel, missing channels are zero; no parameters
  Projection    // 1x1 convolution and batch norm
};

struct ResNetShape {
  int64_t stemChannels;
  std::array<int64_t, 4> blocks;    // basic blocks a stage; a stage of 0 blocks does not exist
  std::array<int64_t, 4> channels;  // of a stage
  Shortcut shortcut;
};

class BasicBlockImpl : public torch::nn::Module {
 public:
  BasicBlockImpl(int64_t inChannels, int64_t outChannels, int64_t stride, Shortcut shortcut);
  torch::Tensor forward(const torch::Tensor& input);

 private:
  torch::Tensor shortcut(const torch::Tensor& input);

  int64_t stride_;
  int64_t missingChannels_;
  torch::nn::Conv2d conv1_, conv2_;
  torch::nn::BatchNorm2d norm1_, norm2_;
  torch::nn::Sequential projection_{nullptr};  // only for Shortcut::Projection where the shape changes
};
TORCH_MODULE(BasicBlock);

class ResNetImpl : public torch::nn::Module {
 public:
  ResNetImpl(const ResNetShape& shape, int64_t classes);
  torch::Tensor forward(const torch::Tensor& images);

 private:
  void initialize();

  torch::nn::Conv2d stem_;
  torch::nn::BatchNorm2d stemNorm_;
  torch::nn::Sequential stages_;
  torch::nn::Linear classifier_{nullptr};
};
TORCH_MODULE(ResNet);

// name: "resnet20" (269,722 parameters) or "resnet18" (11,173,962). Equal seeds give equal weights; uses torch's global
// generator, so build models on one thread. Throws std::invalid_argument for another name.
ResNet makeResNet(const std::string& name, uint64_t seed);

}  // namespace examples
