// SPDX-License-Identifier: Apache-2.0
#include "examples/lstm/reviews.h"

#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/folder.h"

namespace {

using namespace examples;
using sparsecoll::test::Folder;
using sparsecoll::test::messageOf;

const std::string kTrain = "0\t3\t0\tBad, bad film.\n1\t10\t1\tA good film!\n1\t7\t2\tgood<br /><br />film\n";
const std::string kTest = "1\t8\t0\tA great film\n0\t1\t1\tbad\n";

}  // namespace

TEST_CASE("reviews: words are runs of letters, digits and apostrophes") {
  using Words = std::vector<std::string>;
  CHECK(reviewWords("It's A FILM,really.<br /><br />10/10") == Words{"it's", "a", "film", "really", "10", "10"});
  CHECK(reviewWords("caf\xc3\xa9 <b>") == Words{"caf\xc3\xa9", "b"});
  CHECK(reviewWords(" -- ").empty());
}

TEST_CASE("reviews: a table is read, its frequent words are numbered") {
  const Folder folder;
  folder.write("train.tsv", kTrain);
  folder.write("test.tsv", kTest);
  const auto reviews = readReviews(folder.path(), {.vocabulary = 5});
  // padding 0, unknown 1, film 2, bad 3, good 4; "a" is left out
  CHECK(reviews.vocabulary == 5);
  CHECK(reviews.train.labels == std::vector<uint8_t>{0, 1, 1});
  CHECK(reviews.train.tokens == std::vector<int32_t>{3, 3, 2, 1, 4, 2, 4, 2});
  CHECK(reviews.train.ends == std::vector<size_t>{3, 6, 8});
  CHECK(reviews.test.tokens == std::vector<int32_t>{1, 1, 2, 3});
}

TEST_CASE("reviews: the original's folders give what the table gives") {
  const Folder folder;
  folder.write("train/neg/0_3.txt", "Bad, bad film.");
  folder.write("train/pos/1_10.txt", "A good film!");
  folder.write("train/pos/2_7.txt", "good<br /><br />film");
  folder.write("train/pos/url.html", "not a review");
  folder.write("test/neg/1_1.txt", "bad");
  folder.write("test/pos/0_8.txt", "A great film");
  const auto reviews = readReviews(folder.path(), {.vocabulary = 5});
  CHECK(reviews.train.tokens == std::vector<int32_t>{3, 3, 2, 1, 4, 2, 4, 2});
  CHECK(reviews.test.labels == std::vector<uint8_t>{0, 1});
}

TEST_CASE("reviews: a limit takes from both verdicts") {
  const Folder folder;
  std::string table;
  for (int i = 0; i < 10; ++i) table += (i < 5 ? "0\t1\t" : "1\t9\t") + std::to_string(i) + "\tword\n";
  folder.write("train.tsv", table);
  folder.write("test.tsv", table);
  const auto reviews = readReviews(folder.path(), {.trainReviews = 4, .testReviews = 5});
  CHECK(reviews.train.labels == std::vector<uint8_t>{0, 0, 1, 1});
  CHECK(reviews.test.size() == 5);
}

TEST_CASE("reviews: what cannot be read is named with its place") {
  struct Row {
    std::string train;
    const char* reason;
  };
  const std::vector<Row> rows{
      {"", "train.tsv: the file is empty"},
      {"0\t3\t0\tBad\n1\t10\t1\tGo", "train.tsv: line 2: truncated"},
      {"0\t3\t0\n", "train.tsv: line 1: four fields"},
      {"2\t3\t0\tBad\n", "line 1: the label is '2'"},
      {"0\t3\t0\tBad\nneg\t3\t0\tBad\n", "line 2: the label is 'neg'"},
      {"0\t9\t0\tBad\n", "line 1: '9' stars do not go with label 0"},
      {"1\t6\t0\tGood\n", "line 1: '6' stars do not go with label 1"},
      {"1\t11\t0\tGood\n", "line 1: '11' stars"},
      {"1\t9\tx\tGood\n", "line 1: the id 'x' is no number"},
      {"1\t9\t0\t\n", "line 1: the text is empty"},
  };
  for (const auto& row : rows) {
    const Folder folder;
    folder.write("train.tsv", row.train);
    folder.write("test.tsv", kTest);
    CAPTURE(row.train);
    CHECK_THAT(messageOf([&] { readReviews(folder.path(), {}); }), Catch::Contains(row.reason));
  }
  const Folder folder;
  CHECK_THAT(messageOf([&] { readReviews(folder.path(), {}); }), Catch::Contains("holds no train.tsv"));
  CHECK_THAT(messageOf([&] { openReviews(folder.path() / "none", {}, 1); }), Catch::Contains("no such directory"));
  folder.write("train/neg/0_3.txt", "Bad");
  CHECK_THAT(messageOf([&] { readReviews(folder.path(), {}); }), Catch::Contains("pos: no such directory"));
  folder.write("train/pos/readme", "");
  CHECK_THAT(messageOf([&] { readReviews(folder.path(), {}); }), Catch::Contains("pos: holds no .txt"));
  folder.write("train/pos/1_3.txt", "Good");
  CHECK_THAT(messageOf([&] { readReviews(folder.path(), {}); }),
             Catch::Contains("1_3.txt: the name should be ID_STARS.txt"));
  std::filesystem::remove(folder.path() / "train/pos/1_3.txt");
  folder.write("train/pos/1_9.txt", "");
  CHECK_THAT(messageOf([&] { readReviews(folder.path(), {}); }), Catch::Contains("1_9.txt: the file is empty"));
}

TEST_CASE("reviews: the synthetic ones depend on their seed only, and moods tell the verdict") {
  const ReviewLimits limits{.vocabulary = 200, .trainReviews = 400, .testReviews = 100};
  const auto reviews = makeSyntheticReviews(limits, 3), again = makeSyntheticReviews(limits, 3);
  CHECK(reviews.synthetic);
  CHECK_THAT(reviews.source, Catch::Contains("SYNTHETIC"));
  CHECK(reviews.train.tokens == again.train.tokens);
  CHECK(reviews.train.tokens != makeSyntheticReviews(limits, 4).train.tokens);
  CHECK(std::count(reviews.test.labels.begin(), reviews.test.labels.end(), 1) == 50);
  size_t right = 0;
  for (size_t i = 0; i < reviews.test.size(); ++i) {
    int mood = 0;
    for (size_t at = reviews.test.begin(i); at < reviews.test.ends[i]; ++at) {
      const int32_t word = reviews.test.tokens[at];
      REQUIRE((word >= 2 && word < 200));
      if (word < 22) mood += word < 12 ? -1 : 1;
    }
    right += (mood > 0) == (reviews.test.labels[i] == 1) ? 1 : 0;
  }
  CHECK(right > 85);
}

TEST_CASE("reviews: packed reviews begin together") {
  ReviewSet set;
  set.tokens = {5, 6, 7, 8, 9};
  set.ends = {4, 5, 5};
  set.labels = {0, 1, 0};
  std::vector<int64_t> out(9);
  packReviews(set, {1, 0, 2}, 3, out.data());
  CHECK(out == std::vector<int64_t>{9, 6, 0, 0, 7, 0, 0, 8, 0});
}
