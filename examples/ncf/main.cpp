// SPDX-License-Identifier: Apache-2.0
// sparsecoll-ncf: a recommender whose ranks average their gradients with libsparsecoll.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "examples/ncf/task.h"

namespace {

using namespace examples;

class NcfProgram final : public Program {
 public:
  std::string name() const override { return "sparsecoll-ncf"; }
  std::string summary() const override {
    return "Trains neural matrix factorisation on ratings; its ranks average their gradients with libsparsecoll.";
  }

  void addOptions(CLI::App& app, Settings& settings) override {
    settings.learningRate.schedule = "constant";
    settings.learningRate.peak = 0.0045;
    settings.learningRate.warmupEpochs = 0;
    settings.optimizer.name = "adam";
    settings.optimizer.beta1 = 0.25;
    settings.optimizer.beta2 = 0.5;
    settings.optimizer.weightDecay = 0;
    settings.batchSize = 1024;
    settings.epochs = 30;
    app.add_option("--factors", options_.factors, "of the smaller embeddings; all widths follow")
        ->check(CLI::Range(1, 65536))
        ->capture_default_str();
    app.add_option("--dropout", options_.dropout, "behind every hidden layer")
        ->check(CLI::Range(0.0, 0.99))
        ->capture_default_str();
    app.add_option("--negatives", options_.negatives, "samples without a visit for each one with")
        ->check(CLI::Range(1, 1000))
        ->capture_default_str();
    app.add_option("--max-users", split_.maxUsers, "use only the first N users, 0: all")->capture_default_str();
  }

  void open(const Settings& settings) override {
    split_.seed = settings.seed;
    data_ = openInteractions(settings.dataDir, split_);
    std::fprintf(stderr, "data: %s, %zu users, %zu items, %zu ratings to train\n", data_.source.c_str(), data_.users,
                 data_.items, data_.positives());
  }

  std::vector<std::pair<std::string, std::string>> describe() const override {
    return {{"model", "neumf"},
            {"data", data_.source},
            {"synthetic", data_.synthetic ? "yes" : "no"},
            {"users", std::to_string(data_.users)},
            {"items", std::to_string(data_.items)},
            {"train_ratings", std::to_string(data_.positives())},
            {"factors", std::to_string(options_.factors)},
            {"dropout", std::to_string(options_.dropout)},
            {"negatives", std::to_string(options_.negatives)}};
  }

  std::shared_ptr<Task> makeTask(const Settings& settings, const Replica& replica) const override {
    return makeNcfTask(data_, options_, settings, replica);
  }

 private:
  NcfOptions options_;
  SplitOptions split_;
  Interactions data_;
};

}  // namespace

int main(int argc, char** argv) {
  NcfProgram program;
  return examples::runProgram(argc, argv, program);
}
