// SPDX-License-Identifier: Apache-2.0
// sparsecoll-sentiment: an LSTM that judges film reviews, whose ranks average their gradients with libsparsecoll.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "examples/lstm/recurrent_program.h"
#include "examples/lstm/tasks.h"

namespace {

using namespace examples;

class SentimentProgram final : public Program {
 public:
  std::string name() const override { return "sparsecoll-sentiment"; }
  std::string summary() const override {
    return "Trains an LSTM to judge film reviews; its ranks average their gradients with libsparsecoll.";
  }
  std::string sampleUnit() const override { return "reviews"; }

  void addOptions(CLI::App& app, Settings& settings) override {
    settings.learningRate.schedule = "steps";
    settings.learningRate.milestones = {10, 20, 30};
    settings.learningRate.peak = 0.3;
    settings.learningRate.warmupEpochs = 0;
    settings.optimizer.weightDecay = 1e-4;
    settings.epochs = 31;
    examples::addOptions(app, options_, kSteps, "of a review: the last N");
    app.add_option("--vocabulary", limits_.vocabulary, "keep the most frequent N words, 0: all")->capture_default_str();
    app.add_option("--train-limit", limits_.trainReviews, "use only N reviews to train, half of each verdict; 0: all")
        ->capture_default_str();
    app.add_option("--test-limit", limits_.testReviews, "and to test, 0: all")->capture_default_str();
  }

  void open(const Settings& settings) override {
    checkOptions(options_, settings);
    reviews_ = openReviews(settings.dataDir, limits_, settings.seed);
    std::fprintf(stderr, "data: %s, %zu reviews to train and %zu to test, %zu different words\n",
                 reviews_.source.c_str(), reviews_.train.size(), reviews_.test.size(), reviews_.vocabulary);
  }

  std::vector<std::pair<std::string, std::string>> describe() const override {
    std::vector<std::pair<std::string, std::string>> description = {
        {"model", "lstm-sentiment"},
        {"data", reviews_.source},
        {"synthetic", reviews_.synthetic ? "yes" : "no"},
        {"train_reviews", std::to_string(reviews_.train.size())},
        {"test_reviews", std::to_string(reviews_.test.size())},
        {"vocabulary", std::to_string(reviews_.vocabulary)}};
    examples::describe(options_, kSteps, description);
    return description;
  }

  std::shared_ptr<Task> makeTask(const Settings& settings, const Replica& replica) const override {
    return makeSentimentTask(reviews_, options_, settings, replica);
  }

 private:
  static constexpr const char* kSteps = "words";

  RecurrentOptions options_{128, 1, 0.2, 200, 1.0};
  ReviewLimits limits_{.vocabulary = 20000};
  Reviews reviews_;
};

}  // namespace

int main(int argc, char** argv) {
  SentimentProgram program;
  return examples::runProgram(argc, argv, program);
}
