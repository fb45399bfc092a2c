// SPDX-License-Identifier: Apache-2.0
#include "examples/lstm/corpus.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/folder.h"

namespace {

using namespace examples;
using sparsecoll::test::Folder;
using sparsecoll::test::messageOf;

using Ids = std::vector<int32_t>;

}  // namespace

TEST_CASE("corpus: words, ends of lines and words that the training text does not have") {
  const Folder folder;
  folder.write("train.txt", " \n b a  a\tb b \n");
  folder.write("valid.txt", "a new b\n");
  folder.write("test.txt", "b\n\n");
  const auto corpus = readCorpus(folder.path(), {});
  // <eos> 0, <unk> 1, b 2, a 3
  CHECK(corpus.vocabulary == 4);
  CHECK(corpus.train == Ids{0, 2, 3, 3, 2, 2, 0});
  CHECK(corpus.valid == Ids{3, 1, 2, 0});
  CHECK(corpus.test == Ids{2, 0, 0});
  CHECK_FALSE(corpus.synthetic);
}

TEST_CASE("corpus: the names of WikiText-2 and of Penn Treebank") {
  for (const std::string prefix : {"wiki.", "ptb."}) {
    const Folder folder;
    for (const std::string part : {"train", "valid", "test"}) {
      folder.write(prefix + part + (prefix == "wiki." ? ".tokens" : ".txt"), "the <unk> the\n");
    }
    CAPTURE(prefix);
    CHECK(readCorpus(folder.path(), {}).train == Ids{2, 1, 2, 0});
  }
}

TEST_CASE("corpus: limits keep the frequent words and the beginning of the text") {
  const Folder folder;
  folder.write("train.txt", "a b a c\na b d\n");
  folder.write("valid.txt", "a b c d\n");
  folder.write("test.txt", "d d d\n");
  const auto corpus = readCorpus(folder.path(), {.vocabulary = 4, .trainTokens = 7, .testTokens = 3});
  CHECK(corpus.vocabulary == 4);
  CHECK(corpus.train == Ids{2, 3, 2, 1, 0, 2, 3});
  CHECK(corpus.valid == Ids{2, 3, 1});
  CHECK(corpus.test == Ids{1, 1, 1});
}

TEST_CASE("corpus: what cannot be read is named with its place") {
  struct Row {
    const char* train;
    const char* reason;
  };
  const std::vector<Row> rows{
      {"", "train.txt: the file is empty"},
      {"a b\nc", "train.txt: line 2: truncated"},
      {" \n\n", "train.txt: holds no words"},
  };
  for (const auto& row : rows) {
    const Folder folder;
    folder.write("train.txt", row.train);
    folder.write("valid.txt", "a\n");
    folder.write("test.txt", "a\n");
    CHECK_THAT(messageOf([&] { readCorpus(folder.path(), {}); }), Catch::Contains(row.reason));
  }
  const Folder folder;
  CHECK_THAT(messageOf([&] { readCorpus(folder.path(), {}); }), Catch::Contains("holds no train.txt"));
  CHECK_THAT(messageOf([&] { openCorpus(folder.path() / "none", {}, 1); }), Catch::Contains("no such directory"));
  folder.write("train.txt", "a\n");
  CHECK_THAT(messageOf([&] { readCorpus(folder.path(), {}); }), Catch::Contains("holds no valid.txt"));
}

TEST_CASE("corpus: the synthetic text depends on its seed only, and can be learnt") {
  const CorpusLimits limits{.trainTokens = 40000, .testTokens = 4000};
  const auto corpus = makeSyntheticCorpus(100, limits, 7), again = makeSyntheticCorpus(100, limits, 7);
  CHECK(corpus.synthetic);
  CHECK_THAT(corpus.source, Catch::Contains("SYNTHETIC"));
  CHECK(corpus.train == again.train);
  CHECK(corpus.test == again.test);
  CHECK(corpus.train != makeSyntheticCorpus(100, limits, 8).train);
  CHECK(std::all_of(corpus.train.begin(), corpus.train.end(), [](int32_t id) { return id >= 0 && id < 100; }));

  // The four words that most often follow one in the training text follow it in the test text.
  std::map<int32_t, std::map<int32_t, int>> followers;
  for (size_t i = 1; i < corpus.train.size(); ++i) ++followers[corpus.train[i - 1]][corpus.train[i]];
  size_t guessed = 0;
  for (size_t i = 1; i < corpus.test.size(); ++i) {
    std::vector<std::pair<int, int32_t>> ranked;
    for (const auto& [word, count] : followers[corpus.test[i - 1]]) ranked.push_back({-count, word});
    std::sort(ranked.begin(), ranked.end());
    for (size_t place = 0; place < std::min<size_t>(4, ranked.size()); ++place) {
      guessed += ranked[place].second == corpus.test[i] ? 1 : 0;
    }
  }
  CHECK(guessed > corpus.test.size() * 8 / 10);
}

TEST_CASE("corpus: columns go on where the step before has ended, and ranks share them out") {
  Ids tokens(62);  // 3 columns of 20
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i);
  const TextColumns text(tokens, 3, 6);
  REQUIRE(text.steps() == 3);
  std::vector<int64_t> inputs(12), targets(12);
  text.read(1, {2, 0}, inputs.data(), targets.data());
  CHECK(inputs == std::vector<int64_t>{46, 6, 47, 7, 48, 8, 49, 9, 50, 10, 51, 11});
  for (size_t i = 0; i < inputs.size(); ++i) CHECK(targets[i] == inputs[i] + 1);
  CHECK_THROWS_AS(text.read(3, {0}, inputs.data(), targets.data()), std::logic_error);
  CHECK_THAT(messageOf([&] { TextColumns(tokens, 31, 2); }), Catch::Contains("too short"));
  CHECK_THAT(messageOf([&] { TextColumns({}, 1, 1); }), Catch::Contains("too short"));

  for (const bool contiguous : {false, true}) {
    std::vector<size_t> all;
    for (size_t rank = 0; rank < 3; ++rank) {
      const auto own = columnsOf(rank, 3, 4, contiguous);
      all.insert(all.end(), own.begin(), own.end());
    }
    std::sort(all.begin(), all.end());
    CHECK(all == std::vector<size_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  }
  CHECK(columnsOf(1, 3, 4, true) == std::vector<size_t>{4, 5, 6, 7});
  CHECK(columnsOf(1, 3, 4, false) == std::vector<size_t>{1, 4, 7, 10});
}

TEST_CASE("corpus: WikiText-2, where it is at hand", "[data]") {
  const char* directory = std::getenv("SPARSECOLL_WIKITEXT2");
  if (directory == nullptr) {
    WARN("skipped: SPARSECOLL_WIKITEXT2 does not name its folder");
    return;
  }
  const auto corpus = readCorpus(directory, {});
  CHECK(corpus.train.size() == 2088628);
  CHECK(corpus.valid.size() == 217646);
  CHECK(corpus.test.size() == 245569);
  CHECK(corpus.vocabulary == 33278);
}
