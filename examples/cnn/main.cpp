// SPDX-License-Identifier: Apache-2.0
// sparsecoll-cnn: data-parallel training of image classifiers whose ranks average their gradients with libsparsecoll.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "examples/cnn/program.h"

namespace examples {

namespace {

const std::vector<std::string> kModels{"resnet20",  "resnet56",  "resnet110", "resnet18", "resnet50",
                                       "resnet152", "senet18",   "vgg16",     "vgg19",    "vgg19-bn",
                                       "alexnet",   "googlenet", "mnistnet"};

}  // namespace

void CnnProgram::addOptions(CLI::App& app, Settings& settings) {
  settings.exchange.presets = {"dgc"};  // the most accurate at the default density (docs/convergence.md)
  app.add_option("--model", model_)->check(CLI::IsMember(kModels))->capture_default_str();
  app.add_option("--data", request_.data, "the set; folder: train/CLASS/*.jpg and val/CLASS/*.jpg in --data-dir")
      ->check(CLI::IsMember({"cifar10", "cifar100", "mnist", "folder", "synthetic"}))
      ->capture_default_str();
  app.add_option("--image-size", request_.side, "side that images of a folder are scaled to")
      ->check(CLI::Range(8, 4096))
      ->capture_default_str();
  app.add_option("--train-limit", request_.trainLimit, "use only the first N training images, 0: all")
      ->capture_default_str();
  app.add_option("--test-limit", request_.testLimit, "use only the first N test images, 0: all")->capture_default_str();
}

void CnnProgram::open(const Settings& settings) {
  request_.directory = settings.dataDir;
  request_.seed = settings.seed;
  data_ = openImages(request_);
  std::fprintf(stderr, "data: %s, %zu training and %zu test images\n", data_.source.c_str(), data_.train->size(),
               data_.test->size());
}

std::vector<std::pair<std::string, std::string>> CnnProgram::describe() const {
  return {{"model", model_},
          {"data", data_.source},
          {"synthetic", data_.name == "synthetic" ? "yes" : "no"},
          {"train_images", std::to_string(data_.train->size())},
          {"test_images", std::to_string(data_.test->size())},
          {"image_size", std::to_string(data_.train->shape().height)}};
}

}  // namespace examples

int main(int argc, char** argv) {
  examples::CnnProgram program;
  return examples::runProgram(argc, argv, program);
}
