// SPDX-License-Identifier: Apache-2.0
// sparsecoll-lstm: a language model whose ranks average their gradients with libsparsecoll.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "examples/lstm/recurrent_program.h"
#include "examples/lstm/tasks.h"

namespace {

using namespace examples;

class LanguageProgram final : public Program {
 public:
  std::string name() const override { return "sparsecoll-lstm"; }
  std::string summary() const override {
    return "Trains an LSTM language model; its ranks average their gradients with libsparsecoll.";
  }
  std::string sampleUnit() const override { return "words"; }

  void addOptions(CLI::App& app, Settings& settings) override {
    settings.learningRate.schedule = "steps";
    settings.learningRate.milestones = {45, 80};
    settings.learningRate.peak = 15;
    settings.learningRate.warmupEpochs = 0;
    settings.optimizer.momentum = 0;
    settings.optimizer.weightDecay = 0;
    settings.exchange.density = 0.001;
    settings.epochs = 90;
    examples::addOptions(app, options_, kSteps, "words that backpropagation goes back");
    app.add_option("--vocabulary", limits_.vocabulary, "keep the most frequent N words, 0: all")->capture_default_str();
    app.add_option("--train-limit", limits_.trainTokens, "use only the first N words to train, 0: all")
        ->capture_default_str();
    app.add_option("--test-limit", limits_.testTokens, "and to test, 0: all")->capture_default_str();
    app.add_flag("--on-test", options_.onTest, "judge on the test text instead of the validation text");
  }

  void open(const Settings& settings) override {
    checkOptions(options_, settings);
    corpus_ = openCorpus(settings.dataDir, limits_, settings.seed);
    std::fprintf(stderr, "data: %s, %zu words to train, %zu different ones\n", corpus_.source.c_str(),
                 corpus_.train.size(), corpus_.vocabulary);
  }

  std::vector<std::pair<std::string, std::string>> describe() const override {
    std::vector<std::pair<std::string, std::string>> description = {
        {"model", "lstm"},
        {"data", corpus_.source},
        {"synthetic", corpus_.synthetic ? "yes" : "no"},
        {"train_words", std::to_string(corpus_.train.size())},
        {"judged_on", options_.onTest ? "test" : "validation"},
        {"judged_words", std::to_string((options_.onTest ? corpus_.test : corpus_.valid).size())},
        {"vocabulary", std::to_string(corpus_.vocabulary)}};
    examples::describe(options_, kSteps, description);
    return description;
  }

  std::shared_ptr<Task> makeTask(const Settings& settings, const Replica& replica) const override {
    return makeLanguageTask(corpus_, options_, settings, replica);
  }

 private:
  static constexpr const char* kSteps = "bptt";

  RecurrentOptions options_{650, 3, 0.4, 30, 0.4};
  CorpusLimits limits_;
  Corpus corpus_;
};

}  // namespace

int main(int argc, char** argv) {
  LanguageProgram program;
  return examples::runProgram(argc, argv, program);
}
