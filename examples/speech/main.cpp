// SPDX-License-Identifier: Apache-2.0
// sparsecoll-speech: an LSTM that spells what it hears, whose ranks average their gradients with libsparsecoll.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "examples/speech/alphabet.h"
#include "examples/speech/frames.h"
#include "examples/speech/task.h"

namespace {

using namespace examples;

size_t countTooShort(const SpeechData& data) {
  const FrameShape shape(data.rate);
  size_t count = 0;
  for (size_t i = 0; i < data.train->size(); ++i) {
    const auto utterance = data.train->read(0, i);
    if (stepsOf(shape.frames(utterance.samples.size())) < stepsToSpell(spell(utterance.text))) ++count;
  }
  return count;
}

class SpeechProgram final : public Program {
 public:
  std::string name() const override { return "sparsecoll-speech"; }
  std::string summary() const override {
    return "Trains an LSTM to spell speech; its ranks average their gradients with libsparsecoll.";
  }
  std::string sampleUnit() const override { return "utterances"; }

  void addOptions(CLI::App& app, Settings& settings) override {
    settings.learningRate.peak = 0.004;
    settings.learningRate.warmupEpochs = 1;
    settings.optimizer.name = "adam";
    settings.optimizer.weightDecay = 0;
    settings.batchSize = 4;
    settings.epochs = 24;
    app.add_option("--digits", digits_, "folder of the Free Spoken Digit Dataset, instead of --data-dir")
        ->type_name("DIR");
    app.add_option("--width", options_.width, "of the convolutions, and of the LSTM in each direction")
        ->check(CLI::Range(1, 65536))
        ->capture_default_str();
    app.add_option("--layers", options_.layers, "LSTM layers")->check(CLI::Range(1, 100))->capture_default_str();
    app.add_option("--dropout", options_.dropout, "in front of every LSTM layer")
        ->check(CLI::Range(0.0, 0.99))
        ->capture_default_str();
    app.add_option("--clip", options_.clip, "largest norm of a rank's gradient, 0: any; not with --overlap")
        ->check(CLI::Range(0.0, 1e9))
        ->capture_default_str();
    app.add_option("--beam", options_.beam, "prefixes that the decoder of the tests keeps")
        ->check(CLI::Range(1, 100000))
        ->capture_default_str();
    app.add_option("--train-limit", limits_.train, "use only N utterances to train, 0: all")->capture_default_str();
    app.add_option("--test-limit", limits_.test, "and to test, 0: all")->capture_default_str();
  }

  void open(const Settings& settings) override {
    if (options_.clip > 0 && settings.exchange.overlap)
      throw std::runtime_error("--clip changes gradients that --overlap is sending by then: give --clip 0");
    data_ = openSpeech(settings.dataDir, digits_, limits_, settings.seed);
    std::fprintf(stderr, "data: %s, %zu utterances to train and %zu to test, %d samples a second\n",
                 data_.source.c_str(), data_.train->size(), data_.test->size(), data_.rate);
    if (const size_t count = countTooShort(data_); count > 0)
      std::fprintf(stderr, "%zu utterances are too short for their transcripts: nothing is learnt from them\n", count);
  }

  std::vector<std::pair<std::string, std::string>> describe() const override {
    return {{"model", "lstm-speech"},
            {"data", data_.source},
            {"synthetic", data_.synthetic ? "yes" : "no"},
            {"train_utterances", std::to_string(data_.train->size())},
            {"test_utterances", std::to_string(data_.test->size())},
            {"rate", std::to_string(data_.rate)},
            {"width", std::to_string(options_.width)},
            {"layers", std::to_string(options_.layers)},
            {"dropout", std::to_string(options_.dropout)},
            {"clip", std::to_string(options_.clip)},
            {"beam", std::to_string(options_.beam)}};
  }

  std::shared_ptr<Task> makeTask(const Settings& settings, const Replica& replica) const override {
    return makeSpeechTask(data_, options_, settings, replica);
  }

 private:
  std::string digits_;
  SpeechOptions options_;
  SpeechLimits limits_;
  SpeechData data_;
};

}  // namespace

int main(int argc, char** argv) {
  SpeechProgram program;
  return examples::runProgram(argc, argv, program);
}
