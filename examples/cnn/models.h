// SPDX-License-Identifier: Apache-2.0
// The networks, without anything that depends on sparsecoll.
#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <memory>
#include <string>
#include <vector>

#include "examples/cnn/images.h"

namespace examples {

/// Planar images to a score per class.
class Classifier : public torch::nn::Module {
 public:
  virtual torch::Tensor forward(torch::Tensor images) = 0;
};

struct ModelShape {
  ImageShape image;
  int64_t classes = 10;
  at::Generator* noise = nullptr;  // for dropout

  /// Images as large as ImageNet's get the stems and heads that were published for those.
  bool large() const { return image.height > 64; }
};

using MakeModel = std::shared_ptr<Classifier> (*)(const ModelShape&);

struct ModelEntry {
  const char* name;
  MakeModel make;
  size_t smallestSide;  // of images
};

extern const std::vector<ModelEntry> kResidualModels;  // resnet.cpp
extern const std::vector<ModelEntry> kPlainModels;     // plain_nets.cpp

/// Weights come from torch's global generator. Errors: std::invalid_argument (unknown name, images too small).
std::shared_ptr<Classifier> makeModel(const std::string& name, const ModelShape& shape);

}  // namespace examples
