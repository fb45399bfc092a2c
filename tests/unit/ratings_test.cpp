// SPDX-License-Identifier: Apache-2.0
#include "examples/ncf/ratings.h"

#include <algorithm>
#include <cstdlib>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/folder.h"

namespace {

using namespace examples;
using sparsecoll::test::Folder;
using sparsecoll::test::messageOf;

const std::string kHeader = "userId,movieId,rating,timestamp\n";
using Ids = std::vector<uint32_t>;

}  // namespace

TEST_CASE("ratings: both formats") {
  for (const bool table : {true, false}) {
    const Folder folder;
    if (table)
      folder.write("ratings.csv", kHeader + "7,1193,5.0,978300760\r\n7,50,0.5,1\r\n");
    else
      folder.write("ratings.dat", "7::1193::5::978300760\n7::50::1::1\n");
    const auto ratings = readRatings(folder.path());
    REQUIRE(ratings.size() == 2);
    CHECK(ratings[0].user == 7);
    CHECK(ratings[0].item == 1193);
    CHECK(ratings[0].timestamp == 978300760);
  }
}

TEST_CASE("ratings: what cannot be read is named with its place") {
  struct Row {
    const char* file;
    std::string text;
    const char* reason;
  };
  const std::vector<Row> rows{
      {"ratings.csv", "", "ratings.csv: the file is empty"},
      {"ratings.csv", kHeader, "no rating follows"},
      {"ratings.csv", "movieId,title,genres\n1,Toy Story,x\n", "line 1: the header userId"},
      {"ratings.csv", kHeader + "1,1,4.0,96498", "line 2: truncated"},
      {"ratings.csv", kHeader + "1,1,4.0,9\n1,1,4.0\n", "line 3: four fields"},
      {"ratings.csv", kHeader + "1,1,4.0,9,9\n", "line 2: four fields"},
      {"ratings.csv", kHeader + "x,1,4.0,9\n", "line 2: the user 'x'"},
      {"ratings.csv", kHeader + "1,-1,4.0,9\n", "line 2: the item '-1'"},
      {"ratings.csv", kHeader + "1,4294967296,4.0,9\n", "line 2: the item"},
      {"ratings.csv", kHeader + "1,1,0.0,9\n", "line 2: the rating '0.0'"},
      {"ratings.csv", kHeader + "1,1,5.5,9\n", "the rating '5.5'"},
      {"ratings.csv", kHeader + "1,1,4.05,9\n", "the rating '4.05'"},
      {"ratings.csv", kHeader + "1,1,,9\n", "the rating ''"},
      {"ratings.csv", kHeader + "1,1,3.,9\n", "the rating '3.'"},
      {"ratings.csv", kHeader + "1,1,3.5,1.5e9\n", "the timestamp '1.5e9'"},
      {"ratings.dat", "1,1,4.0,9\n", "ratings.dat: line 1: four fields"},
      {"ratings.dat", "1::1::4::\n", "the timestamp ''"},
  };
  for (const auto& row : rows) {
    const Folder folder;
    folder.write(row.file, row.text);
    CAPTURE(row.text);
    CHECK_THAT(messageOf([&] { readRatings(folder.path()); }), Catch::Contains(row.reason));
    CHECK_THAT(messageOf([&] { openInteractions(folder.path(), {}); }), Catch::Contains(row.reason));
  }
  const Folder folder;
  CHECK_THAT(messageOf([&] { readRatings(folder.path()); }), Catch::Contains("neither ratings.csv nor ratings.dat"));
  CHECK_THAT(messageOf([&] { readRatings(folder.path() / "none"); }), Catch::Contains("no such directory"));
  folder.write("ratings.csv", kHeader + "1,1,4.0,9\n");
  CHECK_THAT(messageOf([&] { openInteractions(folder.path(), {}); }),
             Catch::Contains(folder.path().string() + ": no user has 20 ratings"));
}

TEST_CASE("ratings: the latest one of a user is the test") {
  const std::vector<Rating> ratings{
      {90, 5, 30}, {90, 4, 10}, {90, 9, 20},              // out of order
      {10, 4, 7},  {10, 5, 7},  {10, 6, 7},               // equal times: the last in the file
      {50, 1, 1},                                         // too few
      {70, 8, 1},  {70, 9, 2},  {70, 8, 3},  {70, 5, 2},  // twice the same: the later one counts
  };
  const auto split = splitRatings(ratings, {.minRatings = 2, .testNegatives = 1});
  // users 90 10 70; items 5 4 9 6 8
  CHECK(split.users == 3);
  CHECK(split.items == 5);
  CHECK(split.trainUsers == Ids{0, 0, 1, 1, 2, 2});
  CHECK(split.trainItems == Ids{1, 2, 1, 0, 2, 0});
  CHECK(split.testItems == Ids{0, 3, 4});
  CHECK(split.negatives() == 1);
  CHECK(splitRatings(ratings, {.minRatings = 2, .testNegatives = 1, .maxUsers = 2}).users == 2);
}

TEST_CASE("ratings: negatives are distinct items that the user never rated") {
  const auto ratings = makeSyntheticRatings(50, 300, 5);
  const auto split = splitRatings(ratings, {.minRatings = 10, .seed = 5});
  REQUIRE(split.users > 40);
  REQUIRE(split.testNegatives.size() == 100 * split.users);
  std::set<std::pair<uint32_t, uint32_t>> rated;
  for (size_t i = 0; i < split.positives(); ++i) rated.insert({split.trainUsers[i], split.trainItems[i]});
  CHECK(rated.size() == split.positives());
  for (uint32_t user = 0; user < split.users; ++user) {
    CHECK(rated.count({user, split.testItems[user]}) == 0);
    const auto first = split.testNegatives.begin() + static_cast<std::ptrdiff_t>(user) * 100;
    const std::set<uint32_t> negatives(first, first + 100);
    CHECK(negatives.size() == 100);
    CHECK(negatives.count(split.testItems[user]) == 0);
    for (const uint32_t item : negatives) {
      REQUIRE(item < split.items);
      REQUIRE(rated.count({user, item}) == 0);
    }
  }
  CHECK(split.testNegatives == splitRatings(ratings, {.minRatings = 10, .seed = 5}).testNegatives);
  CHECK(split.testNegatives != splitRatings(ratings, {.minRatings = 10, .seed = 6}).testNegatives);
}

TEST_CASE("ratings: a user who has rated nearly everything cannot be tested") {
  std::vector<Rating> ratings;
  for (uint32_t item = 0; item < 30; ++item) ratings.push_back({1, item, item});
  CHECK_THAT(messageOf([&] { splitRatings(ratings, {}); }), Catch::Contains("a user has rated 30 of 30 items"));
}

TEST_CASE("ratings: the synthetic ones are labelled, depend on their seed only, and keep to groups") {
  const auto ratings = makeSyntheticRatings(200, 400, 1), again = makeSyntheticRatings(200, 400, 1);
  const auto same = [](const Rating& a, const Rating& b) { return a.user == b.user && a.item == b.item; };
  CHECK(std::equal(ratings.begin(), ratings.end(), again.begin(), again.end(), same));
  const auto other = makeSyntheticRatings(200, 400, 2);
  CHECK_FALSE(std::equal(ratings.begin(), ratings.end(), other.begin(), other.end(), same));
  const auto own = std::count_if(ratings.begin(), ratings.end(),
                                 [](const Rating& rating) { return rating.user % 8 == rating.item % 8; });
  CHECK(static_cast<double>(own) > 0.6 * static_cast<double>(ratings.size()));
}

TEST_CASE("ratings: MovieLens, where it is at hand", "[data]") {
  const char* directory = std::getenv("SPARSECOLL_ML_LATEST_SMALL");
  if (directory == nullptr) {
    WARN("skipped: SPARSECOLL_ML_LATEST_SMALL does not name its folder");
    return;
  }
  const auto split = openInteractions(directory, {});
  CHECK(split.users == 610);
  CHECK(split.items == 9724);
  CHECK(split.positives() == 100836 - 610);
}
