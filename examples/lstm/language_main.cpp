// SPDX-License-Identifier: Apache-2.0
// sparsecoll-lstm: a language model whose ranks average their gradients with libsparsecoll.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <stdexcept>

#include "examples/common/task.h"
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
    app.add_option("--width", options_.width, "of embedding and hidden states")->capture_default_str();
    app.add_option("--layers", options_.layers, "LSTM layers")->check(CLI::Range(1, 100))->capture_default_str();
    app.add_option("--dropout", options_.dropout, "on the embedding and behind every layer")
        ->check(CLI::Range(0.0, 0.99))
        ->capture_default_str();
    app.add_option("--bptt", options_.steps, "words that backpropagation goes back")
        ->check(CLI::Range(1, 100000))
        ->capture_default_str();
    app.add_option("--clip", options_.clip, "largest norm of a rank's gradient, 0: any; not with --overlap")
        ->check(CLI::Range(0.0, 1e9))
        ->capture_default_str();
    app.add_option("--vocabulary", limits_.vocabulary, "keep the most frequent N words, 0: all")->capture_default_str();
    app.add_option("--train-limit", limits_.trainTokens, "use only the first N words to train, 0: all")
        ->capture_default_str();
    app.add_option("--test-limit", limits_.testTokens, "and to test, 0: all")->capture_default_str();
    app.add_flag("--on-test", options_.onTest, "judge on the test text instead of the validation text");
  }

  void open(const Settings& settings) override {
    if (options_.clip > 0 && settings.exchange.overlap)
      throw std::runtime_error("--clip changes gradients that --overlap is sending by then: give --clip 0");
    corpus_ = openCorpus(settings.dataDir, limits_, settings.seed);
    std::fprintf(stderr, "data: %s, %zu words to train, %zu different ones\n", corpus_.source.c_str(),
                 corpus_.train.size(), corpus_.vocabulary);
  }

  std::vector<std::pair<std::string, std::string>> describe() const override {
    return {{"model", "lstm"},
            {"data", corpus_.source},
            {"synthetic", corpus_.synthetic ? "yes" : "no"},
            {"train_words", std::to_string(corpus_.train.size())},
            {"vocabulary", std::to_string(corpus_.vocabulary)},
            {"width", std::to_string(options_.width)},
            {"layers", std::to_string(options_.layers)},
            {"dropout", std::to_string(options_.dropout)},
            {"bptt", std::to_string(options_.steps)},
            {"clip", std::to_string(options_.clip)}};
  }

  std::unique_ptr<Task> makeTask(const Settings& settings, const Replica& replica) const override {
    return makeLanguageTask(corpus_, options_, settings, replica);
  }

 private:
  RecurrentOptions options_{650, 3, 0.4, 30, 0.4};
  CorpusLimits limits_;
  Corpus corpus_;
};

}  // namespace

int main(int argc, char** argv) {
  LanguageProgram program;
  return examples::runProgram(argc, argv, program);
}
