// SPDX-License-Identifier: Apache-2.0
// sparsecoll-cnn as the common main sees it.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "examples/cnn/images.h"
#include "examples/common/program.h"

namespace examples {

class CnnProgram : public Program {
 public:
  std::string name() const override { return "sparsecoll-cnn"; }
  std::string summary() const override {
    return "Trains an image classifier; its ranks average their gradients with libsparsecoll.";
  }
  std::string sampleUnit() const override { return "img"; }

  void addOptions(CLI::App& app, Settings& settings) override;
  void open(const Settings& settings) override;
  std::vector<std::pair<std::string, std::string>> describe() const override;
  std::shared_ptr<Task> makeTask(const Settings& settings, const Replica& replica) const override;  // task.cpp

 private:
  std::string model_ = "resnet20";
  ImageRequest request_;
  ImageData data_;
};

}  // namespace examples
