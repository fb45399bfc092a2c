// SPDX-License-Identifier: Apache-2.0
// The networks of the recurrent trainers, of the recommender and of the speech trainer: their published sizes, and what
// their pieces promise.
#include <torch/utils.h>

#include <cmath>
#include <memory>

#include "examples/common/dropout.h"
#include "examples/common/task.h"
#include "examples/lstm/models.h"
#include "examples/lstm/tasks.h"
#include "examples/ncf/model.h"
#include "examples/ncf/task.h"
#include "examples/speech/model.h"
#include "examples/speech/task.h"

// After LibTorch: both have a CHECK, and this one is the tests'.
#undef CHECK
#include "tests/support/catch.h"

namespace {

using namespace examples;

int64_t parametersOf(const torch::nn::Module& module) {
  int64_t count = 0;
  for (const auto& parameter : module.parameters()) count += parameter.numel();
  return count;
}

std::vector<float> tone(double frequency, size_t samples) {
  std::vector<float> values(samples);
  for (size_t i = 0; i < samples; ++i)
    values[i] = static_cast<float>(0.5 * std::sin(2 * 3.14159265358979 * frequency * static_cast<double>(i) / 8000));
  return values;
}

at::Generator someNoise() { return at::globalContext().defaultGenerator(at::kCPU).clone(); }

}  // namespace

TEST_CASE("models: the published language model has 28,949,319 parameters in 14 tensors") {
  const LanguageModel model(RecurrentShape{.vocabulary = 28869});
  CHECK(parametersOf(*model) == 28949319);
  CHECK(model->parameters().size() == 14);
}

TEST_CASE("models: the published recommender has 31,832,577 parameters in 12 tensors") {
  const NeuMf model(NeuMfShape{.users = 138493, .items = 26744});
  CHECK(parametersOf(*model) == 31832577);
  CHECK(model->parameters().size() == 12);
}

TEST_CASE("models: the state that comes out of one piece of text goes into the next") {
  torch::manual_seed(1);
  const torch::NoGradGuard noGrad;
  LanguageModel model(RecurrentShape{.vocabulary = 50, .width = 8, .layers = 2});
  model->eval();
  auto noise = someNoise();
  const auto words = torch::randint(50, {12, 3}, torch::kLong);
  auto whole = model->zeroState(3), pieces = model->zeroState(3);
  const auto expected = model->forward(words, whole, noise);
  const auto first = model->forward(words.narrow(0, 0, 5), pieces, noise);
  const auto second = model->forward(words.narrow(0, 5, 7), pieces, noise);
  CHECK(torch::allclose(torch::cat({first, second}), expected, 1e-4, 1e-5));
  CHECK(torch::allclose(std::get<1>(whole[1]), std::get<1>(pieces[1]), 1e-4, 1e-5));
  CHECK_FALSE(std::get<0>(pieces[0]).requires_grad());
}

TEST_CASE("models: a verdict does not depend on the padding") {
  torch::manual_seed(2);
  const torch::NoGradGuard noGrad;
  SentimentModel model(RecurrentShape{.vocabulary = 50, .width = 8, .layers = 2});
  model->eval();
  auto noise = someNoise();
  const auto words = torch::randint(2, 50, {6, 2}, torch::kLong);
  const auto padded = torch::cat({words, torch::zeros({3, 2}, torch::kLong)});
  CHECK(torch::allclose(model->forward(words, noise), model->forward(padded, noise), 1e-4, 1e-5));
}

TEST_CASE("models: dropout keeps the mean, repeats with its seed and rests in tests") {
  const auto ones = torch::ones({100000});
  auto noise = someNoise();
  noise.set_current_seed(7);
  const auto dropped = dropout(ones, 0.4, true, noise);
  CHECK(dropped.mean().item<double>() == Approx(1).epsilon(0.02));
  CHECK(dropped.eq(0).to(torch::kDouble).mean().item<double>() == Approx(0.4).epsilon(0.02));
  noise.set_current_seed(7);
  CHECK(torch::equal(dropped, dropout(ones, 0.4, true, noise)));
  CHECK_FALSE(torch::equal(dropped, dropout(ones, 0.4, true, noise)));
  CHECK(torch::equal(ones, dropout(ones, 0.4, false, noise)));
}

TEST_CASE("speech: a spectrogram shows a tone at its frequency, of any loudness and length alike") {
  const FrameShape shape(8000);
  const auto seen = spectrogram(tone(1000, 800), shape);
  REQUIRE(seen.sizes() == torch::IntArrayRef({static_cast<int64_t>(shape.frames(800)), 81}));
  CHECK(seen.argmax(1).eq(20).all().item<bool>());  // of bins of 50 Hz
  CHECK(seen.mean().item<double>() == Approx(0).margin(1e-5));
  CHECK(seen.square().mean().item<double>() == Approx(1).epsilon(1e-3));
  CHECK(spectrogram({0.1f}, shape).size(0) == 1);
  CHECK(spectrogram(std::vector<float>(500), shape).isfinite().all().item<bool>());  // silence
}

TEST_CASE("speech: what stands behind an utterance in its batch changes neither its loss nor its gradient") {
  torch::manual_seed(3);
  const FrameShape shape(8000);
  SpeechModel model(SpeechShape{.frequencies = 81, .width = 8, .layers = 2});
  auto noise = someNoise();
  const std::vector<torch::Tensor> seen{spectrogram(tone(700, 3000), shape), spectrogram(tone(900, 8000), shape),
                                        spectrogram(tone(400, 4000), shape)};
  const std::vector<std::vector<Label>> texts{spell("ab"), spell("a long one"), spell("aa")};
  const auto gradients = [&](const torch::Tensor& loss) {
    model->zero_grad();
    loss.backward();
    std::vector<torch::Tensor> parts;
    for (const auto& parameter : model->parameters()) parts.push_back(parameter.grad().flatten().clone());
    return torch::cat(parts);
  };
  const auto losses = [&](const SpeechBatch& batch) { return ctcLosses(model->forward(batch, noise), batch); };
  for (size_t i = 0; i < seen.size(); ++i) {
    CAPTURE(i);
    const auto together = losses(SpeechBatch::pack(seen, texts))[static_cast<int64_t>(i)];
    const auto alone = losses(SpeechBatch::pack({seen[i]}, {texts[i]}))[0];
    CHECK(together.item<double>() == Approx(alone.item<double>()).epsilon(1e-5));
    CHECK(alone.item<double>() > 0);
    CHECK(torch::allclose(gradients(together), gradients(alone), 1e-4, 1e-6));
  }
}

TEST_CASE("speech: an utterance too short for its transcript teaches nothing") {
  torch::manual_seed(3);
  const FrameShape shape(8000);
  SpeechModel model(SpeechShape{.frequencies = 81, .width = 4});
  auto noise = someNoise();
  const auto batch = SpeechBatch::pack({spectrogram(tone(700, 500), shape)}, {spell("far too long")});
  const auto loss = ctcLosses(model->forward(batch, noise), batch).sum();
  CHECK(loss.item<double>() == 0);
  loss.backward();
  for (const auto& parameter : model->parameters()) CHECK(parameter.grad().eq(0).all().item<bool>());
  CHECK_THROWS_AS(SpeechBatch::pack({}, {}), std::logic_error);
}

// However many ranks share the work, the sums and with them the result are the same.
TEST_CASE("tasks: the parts of a test add up to the whole") {
  Settings settings;
  settings.batchSize = 2;
  const auto corpus = makeSyntheticCorpus(60, {.trainTokens = 2000, .testTokens = 700}, 1);
  const auto reviews = makeSyntheticReviews({.vocabulary = 100, .trainReviews = 40, .testReviews = 130}, 1);
  const auto ratings = splitRatings(makeSyntheticRatings(150, 300, 1), {.minRatings = 10});
  const auto speech = makeSyntheticSpeech({.train = 12, .test = 35}, 1);
  const RecurrentOptions options{8, 1, 0.2, 10, 0.5};
  const auto make = [&](int which, size_t rank, size_t ranks) {
    torch::manual_seed(1);
    const Replica replica{rank, ranks, "cpu"};
    auto task = which == 0   ? makeLanguageTask(corpus, options, settings, replica)
                : which == 1 ? makeSentimentTask(reviews, options, settings, replica)
                : which == 2 ? makeNcfTask(ratings, {.factors = 4}, settings, replica)
                             : makeSpeechTask(speech, {.width = 8}, settings, replica);
    task->useNoise(someNoise());
    task->module().eval();
    return task;
  };
  const torch::NoGradGuard noGrad;
  for (const int which : {0, 1, 2, 3}) {
    CAPTURE(which);
    const auto whole = make(which, 0, 1)->evaluate(0, 1);
    std::vector<double> sums(whole.size());
    for (size_t rank = 0; rank < 3; ++rank) {
      const auto part = make(which, rank, 3)->evaluate(rank, 3);
      for (size_t i = 0; i < sums.size(); ++i) sums[i] += part.at(i);
    }
    for (size_t i = 0; i < sums.size(); ++i) CHECK(sums[i] == Approx(whole[i]).epsilon(1e-5));
    const auto metrics = make(which, 0, 1)->metrics(whole);
    REQUIRE_FALSE(metrics.empty());
    if (which == 0) CHECK(metrics[0].value == Approx(60).epsilon(0.2));     // nothing learnt: any of 60 words
    if (which == 2) CHECK(whole[0] == static_cast<double>(ratings.users));  // all of them
  }
}

TEST_CASE("tasks: a batch depends on its place, the seed and the rank alone") {
  Settings settings;
  settings.batchSize = 4;
  const auto reviews = makeSyntheticReviews({.vocabulary = 100, .trainReviews = 64, .testReviews = 2}, 1);
  const RecurrentOptions options{4, 1, 0, 100, 0};
  const auto speech = makeSyntheticSpeech({.train = 64, .test = 2}, 1);
  for (const bool spoken : {false, true}) {
    CAPTURE(spoken);
    const auto make = [&](size_t rank) {
      torch::manual_seed(1);
      const Replica replica{rank, 2, "cpu"};
      auto task = spoken ? makeSpeechTask(speech, {.width = 4}, settings, replica)
                         : makeSentimentTask(reviews, options, settings, replica);
      task->useNoise(someNoise());
      return task;
    };
    const auto lossOf = [](Task& task, size_t epoch, size_t step) {
      task.prepare(epoch, step);
      return task.loss().item<double>();
    };
    const auto lossAt = [&](size_t epoch, size_t step, size_t rank) { return lossOf(*make(rank), epoch, step); };
    CHECK(lossAt(1, 3, 0) == lossAt(1, 3, 0));
    CHECK(lossAt(1, 3, 0) != lossAt(1, 3, 1));
    CHECK(lossAt(1, 3, 0) != lossAt(2, 3, 0));
    CHECK(lossAt(1, 3, 0) != lossAt(1, 2, 0));
    const auto later = make(0);
    lossOf(*later, 0, 5);
    CHECK(lossOf(*later, 1, 3) == lossAt(1, 3, 0));
  }
}
