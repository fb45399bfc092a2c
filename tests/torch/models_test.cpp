// SPDX-License-Identifier: Apache-2.0
// The networks have as many parameters as those that sparsification was published with.
#include "examples/cnn/models.h"

#include <torch/utils.h>

#include <string>
#include <vector>
#include "tests/support/catch.h"

using namespace examples;

namespace {

size_t countParameters(const std::string& model, ModelShape shape) {
  at::Generator noise;
  shape.noise = &noise;
  size_t count = 0;
  for (const auto& parameter : makeModel(model, shape)->parameters()) count += static_cast<size_t>(parameter.numel());
  return count;
}

}  // namespace

TEST_CASE("models: parameters, to the unit") {
  struct Row {
    const char* model;
    size_t channels, side;
    int64_t classes;
    size_t parameters;
  };
  const std::vector<Row> rows{
      {"resnet20", 3, 32, 10, 269722},      {"resnet56", 3, 32, 10, 853018},    {"resnet110", 3, 32, 10, 1727962},
      {"resnet18", 3, 32, 10, 11173962},    {"resnet18", 3, 32, 100, 11220132}, {"resnet50", 3, 32, 10, 23520842},
      {"resnet152", 3, 32, 10, 58156618},   {"vgg16", 3, 32, 10, 14728266},     {"vgg19-bn", 3, 32, 100, 20086692},
      {"alexnet", 3, 32, 10, 2472266},      {"googlenet", 3, 32, 10, 6166250},  {"googlenet", 3, 32, 100, 6258500},
      {"senet18", 3, 32, 10, 11260354},     {"mnistnet", 1, 28, 10, 21840},     {"resnet18", 3, 224, 1000, 11689512},
      {"resnet50", 3, 224, 1000, 25557032}, {"vgg19", 3, 224, 1000, 143667240}, {"vgg19-bn", 3, 224, 1000, 143678248},
      {"alexnet", 3, 224, 1000, 61100840}};
  for (const auto& row : rows) {
    INFO(row.model << ", " << row.classes << " classes, " << row.side << " pixels");
    CHECK(countParameters(row.model, {{row.channels, row.side, row.side}, row.classes, nullptr}) == row.parameters);
  }
}

TEST_CASE("models: a score per class for every image, and dropout only in training") {
  torch::manual_seed(1);
  at::Generator noise = at::globalContext().defaultGenerator(at::kCPU).clone();
  const torch::NoGradGuard noGrad;
  const auto images = torch::randn({2, 3, 32, 32});
  for (const auto* models : {&kResidualModels, &kPlainModels}) {
    for (const auto& entry : *models) {
      INFO(entry.name);
      if (std::string(entry.name) == "resnet152") continue;  // seconds, and nothing that resnet50 does not have
      const auto model = makeModel(entry.name, {{3, 32, 32}, 7, &noise});
      model->eval();
      const auto scores = model->forward(images);
      REQUIRE(scores.sizes() == at::IntArrayRef({2, 7}));
      CHECK(scores.equal(model->forward(images)));
      CHECK(scores.isfinite().all().item<bool>());
    }
  }
  const auto model = makeModel("mnistnet", {{3, 32, 32}, 7, &noise});
  noise.set_current_seed(5);
  const auto first = model->forward(images), second = model->forward(images);
  noise.set_current_seed(5);
  CHECK_FALSE(first.equal(second));
  CHECK(first.equal(model->forward(images)));
}

TEST_CASE("models: what cannot be made is refused") {
  CHECK_THROWS_WITH(makeModel("resnet21", {}), Catch::Contains("resnet21"));
  CHECK_THROWS_WITH(makeModel("vgg16", {{3, 28, 28}, 10, nullptr}), Catch::Contains("at least 32 x 32"));
}
