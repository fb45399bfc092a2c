// SPDX-License-Identifier: Apache-2.0
// sparsecoll-sentiment: an LSTM that judges film reviews, whose ranks average their gradients with libsparsecoll.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <stdexcept>

#include "examples/common/task.h"
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
    app.add_option("--width", options_.width, "of embedding and hidden states")->capture_default_str();
    app.add_option("--layers", options_.layers, "LSTM layers")->check(CLI::Range(1, 100))->capture_default_str();
    app.add_option("--dropout", options_.dropout, "on the embedding and behind every layer")
        ->check(CLI::Range(0.0, 0.99))
        ->capture_default_str();
    app.add_option("--words", options_.steps, "of a review: the last N")
        ->check(CLI::Range(1, 100000))
        ->capture_default_str();
    app.add_option("--clip", options_.clip, "largest norm of a rank's gradient, 0: any; not with --overlap")
        ->check(CLI::Range(0.0, 1e9))
        ->capture_default_str();
    app.add_option("--vocabulary", limits_.vocabulary, "keep the most frequent N words, 0: all")->capture_default_str();
    app.add_option("--train-limit", limits_.trainReviews, "use only N reviews to train, half of each verdict; 0: all")
        ->capture_default_str();
    app.add_option("--test-limit", limits_.testReviews, "and to test, 0: all")->capture_default_str();
  }

  void open(const Settings& settings) override {
    if (options_.clip > 0 && settings.exchange.overlap)
      throw std::runtime_error("--clip changes gradients that --overlap is sending by then: give --clip 0");
    reviews_ = openReviews(settings.dataDir, limits_, settings.seed);
    std::fprintf(stderr, "data: %s, %zu reviews to train and %zu to test, %zu different words\n",
                 reviews_.source.c_str(), reviews_.train.size(), reviews_.test.size(), reviews_.vocabulary);
  }

  std::vector<std::pair<std::string, std::string>> describe() const override {
    return {{"model", "lstm-sentiment"},
            {"data", reviews_.source},
            {"synthetic", reviews_.synthetic ? "yes" : "no"},
            {"train_reviews", std::to_string(reviews_.train.size())},
            {"test_reviews", std::to_string(reviews_.test.size())},
            {"vocabulary", std::to_string(reviews_.vocabulary)},
            {"width", std::to_string(options_.width)},
            {"layers", std::to_string(options_.layers)},
            {"dropout", std::to_string(options_.dropout)},
            {"words", std::to_string(options_.steps)},
            {"clip", std::to_string(options_.clip)}};
  }

  std::unique_ptr<Task> makeTask(const Settings& settings, const Replica& replica) const override {
    return makeSentimentTask(reviews_, options_, settings, replica);
  }

 private:
  RecurrentOptions options_{128, 1, 0.2, 200, 1.0};
  ReviewLimits limits_{.vocabulary = 20000};
  Reviews reviews_;
};

}  // namespace

int main(int argc, char** argv) {
  SentimentProgram program;
  return examples::runProgram(argc, argv, program);
}
