// SPDX-License-Identifier: Apache-2.0
#include "examples/speech/decoding.h"

#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "examples/common/random.h"
#include "examples/speech/alphabet.h"
#include "examples/speech/frames.h"
#include "tests/support/catch.h"
#include "tests/support/folder.h"

namespace {

using namespace examples;
using sparsecoll::test::messageOf;

using Labels = std::vector<Label>;

constexpr float kNoFloor = -std::numeric_limits<float>::infinity();

struct Table {
  std::vector<float> values;
  size_t labels;

  LabelScores scores() const { return {values.data(), values.size() / labels, labels}; }
};

/// probabilities: a row a step.
Table logarithms(const std::vector<std::vector<double>>& probabilities) {
  Table table{{}, probabilities[0].size()};
  for (const auto& row : probabilities)
    for (const double p : row) table.values.push_back(static_cast<float>(std::log(p)));
  return table;
}

Table randomTable(size_t steps, size_t labels, Random random) {
  std::vector<std::vector<double>> rows(steps, std::vector<double>(labels));
  for (auto& row : rows) {
    double sum = 0;
    for (double& p : row) sum += p = std::pow(static_cast<double>(1 + random.below(1000)) / 1000, 3);
    for (double& p : row) p /= sum;
  }
  return logarithms(rows);
}

Labels collapse(const Labels& path) {
  Labels labels;
  for (size_t i = 0; i < path.size(); ++i)
    if (path[i] != kBlank && (i == 0 || path[i] != path[i - 1])) labels.push_back(path[i]);
  return labels;
}

/// The probability of every text, added up over all paths that spell it.
std::map<Labels, double> allTexts(const LabelScores& scores) {
  std::map<Labels, double> texts;
  Labels path(scores.steps, 0);
  for (;;) {
    double logarithm = 0;
    for (size_t step = 0; step < path.size(); ++step) logarithm += scores.row(step)[path[step]];
    texts[collapse(path)] += std::exp(logarithm);
    size_t at = 0;
    while (at < path.size() && ++path[at] == scores.labels) path[at++] = 0;
    if (at == path.size()) return texts;
  }
}

}  // namespace

TEST_CASE("decoding: a beam that keeps everything finds the likeliest of all texts") {
  size_t differs = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const size_t steps = 1 + seed % 6, labels = 2 + seed % 3;
    const auto table = randomTable(steps, labels, Random(seed, 1));
    const auto texts = allTexts(table.scores());
    const auto found = decodeBeam(table.scores(), 100000, kNoFloor);
    CAPTURE(seed, steps, labels);
    REQUIRE(texts.count(found) == 1);
    for (const auto& [text, probability] : texts) CHECK(texts.at(found) >= probability * (1 - 1e-9));
    differs += found != decodeGreedy(table.scores()) ? 1 : 0;
  }
  CHECK(differs > 20);  // else the paths of a text were not added up
}

TEST_CASE("decoding: the beam adds up what greedy decoding sees one by one") {
  // Blank twice: 0.36. One label, in any of three ways: 0.4 * 0.6 + 0.6 * 0.4 + 0.4 * 0.4 = 0.64.
  const auto table = logarithms({{0.6, 0.4}, {0.6, 0.4}});
  CHECK(decodeGreedy(table.scores()).empty());
  CHECK(decodeBeam(table.scores(), 4, kNoFloor) == Labels{1});
  CHECK(decodeBeam(table.scores(), 1, kNoFloor).empty());  // it has dropped the label after the first step
  CHECK(decodeBeam(table.scores(), 4, static_cast<float>(std::log(0.5))).empty());
}

TEST_CASE("decoding: equal neighbours need a blank between them") {
  const auto table = logarithms({{0.1, 0.9}, {0.9, 0.1}, {0.1, 0.9}, {0.1, 0.9}});
  CHECK(decodeGreedy(table.scores()) == Labels{1, 1});
  CHECK(decodeBeam(table.scores(), 8, kNoFloor) == Labels{1, 1});
  CHECK(stepsToSpell(spell("three")) == 6);
  CHECK(stepsToSpell(spell("abc")) == 3);
  CHECK(stepsToSpell({}) == 0);
}

TEST_CASE("decoding: errors are insertions, deletions and replacements") {
  CHECK(wrongCharacters("kitten", "sitting") == 3);
  CHECK(wrongCharacters("", "abc") == 3);
  CHECK(wrongCharacters("abc", "") == 3);
  CHECK(wrongCharacters("same", "same") == 0);
  CHECK(wrongWords("one too three", "one two three") == 1);
  CHECK(wrongWords("one  two", "one two") == 0);
  CHECK(wrongWords("onetwo", "one two") == 2);
  CHECK(countWords(" one two ") == 2);
  CHECK(countWords("") == 0);
}

TEST_CASE("alphabet: what is spelled can be read, and foreign characters are named") {
  const std::string text = "it's the quick brown fox jumping over a lazy dog";
  CHECK(spelled(spell(text)) == text);
  for (const Label label : spell(text)) CHECK((label > kBlank && label < kLabels));
  CHECK(spelled({kBlank, 1, kBlank}) == "a");
  CHECK(cleanTranscript("\tA  B\r\n") == "a b");
  CHECK_THAT(messageOf([] { cleanTranscript("a-b"); }), Catch::Contains("'-' is none of"));
  CHECK_THAT(messageOf([] { cleanTranscript("caf\xc3\xa9"); }), Catch::Contains("is none of"));
  CHECK_THAT(messageOf([] { cleanTranscript(""); }), Catch::Contains("no words"));
}

TEST_CASE("frames: every whole window counts, and a short recording is one") {
  const FrameShape shape(8000);
  CHECK(shape.frequencies() == 81);
  CHECK(shape.frames(1) == 1);
  CHECK(shape.frames(160) == 1);
  CHECK(shape.frames(239) == 1);
  CHECK(shape.frames(240) == 2);
  CHECK(stepsOf(1) == 1);
  CHECK(stepsOf(3) == 1);
  CHECK(stepsOf(4) == 2);
}
