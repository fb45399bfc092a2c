// SPDX-License-Identifier: Apache-2.0
#include "examples/ncf/samples.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <vector>

#include "tests/support/catch.h"

namespace {

using namespace examples;

Interactions someData() { return splitRatings(makeSyntheticRatings(60, 300, 1), {.minRatings = 10}); }

using Sample = std::tuple<int64_t, int64_t, float>;

std::vector<Sample> drawAll(const Interactions& data, const SampleShard& shard) {
  const TrainingSamples samples(data, shard);
  std::vector<Sample> all;
  std::vector<int64_t> users(shard.batchSize), items(shard.batchSize);
  std::vector<float> labels(shard.batchSize);
  for (size_t step = 0; step < TrainingSamples::stepsPerEpoch(data, shard); ++step) {
    samples.read(step, users.data(), items.data(), labels.data());
    for (size_t i = 0; i < shard.batchSize; ++i) all.emplace_back(users[i], items[i], labels[i]);
  }
  CHECK_THROWS_AS(samples.read(TrainingSamples::stepsPerEpoch(data, shard), users.data(), items.data(), labels.data()),
                  std::logic_error);
  return all;
}

size_t positivesIn(const std::vector<Sample>& samples) {
  return static_cast<size_t>(
      std::count_if(samples.begin(), samples.end(), [](const Sample& s) { return std::get<2>(s) == 1; }));
}

}  // namespace

TEST_CASE("samples: the ranks together have every positive once and four negatives of its user") {
  const auto data = someData();
  for (const bool contiguous : {false, true}) {
    std::vector<Sample> all;
    for (size_t rank = 0; rank < 5; ++rank) {
      const auto own =
          drawAll(data, {.seed = 1, .epoch = 2, .rank = rank, .ranks = 5, .batchSize = 1, .contiguous = contiguous});
      CHECK(own.size() == data.positives());
      if (contiguous)
        CHECK(positivesIn(own) == (rank == 0 ? data.positives() : 0));
      else
        CHECK(static_cast<double>(positivesIn(own)) == Approx(static_cast<double>(data.positives()) / 5).epsilon(0.3));
      all.insert(all.end(), own.begin(), own.end());
    }
    REQUIRE(all.size() == 5 * data.positives());
    std::vector<Sample> positives;
    std::vector<size_t> ofUser(data.users), negativesOfUser(data.users);
    for (const auto& sample : all) {
      const auto user = static_cast<size_t>(std::get<0>(sample));
      if (std::get<2>(sample) == 1)
        positives.push_back(sample);
      else
        ++negativesOfUser[user];
    }
    std::sort(positives.begin(), positives.end());
    std::vector<Sample> expected;
    for (size_t i = 0; i < data.positives(); ++i) {
      expected.emplace_back(data.trainUsers[i], data.trainItems[i], 1.0F);
      ++ofUser[data.trainUsers[i]];
    }
    std::sort(expected.begin(), expected.end());
    CHECK(positives == expected);
    for (size_t user = 0; user < data.users; ++user) CHECK(negativesOfUser[user] == 4 * ofUser[user]);
  }
}

TEST_CASE("samples: they depend on seed, epoch and rank only") {
  const auto data = someData();
  const SampleShard shard{.seed = 1, .epoch = 0, .rank = 0, .ranks = 2, .batchSize = 7};
  const auto reference = drawAll(data, shard);
  CHECK(reference == drawAll(data, shard));
  auto other = shard;
  other.seed = 2;
  CHECK(reference != drawAll(data, other));
  other = shard;
  other.epoch = 1;
  CHECK(reference != drawAll(data, other));
  other = shard;
  other.rank = 1;
  CHECK(reference != drawAll(data, other));
}

TEST_CASE("samples: hit rate and NDCG by hand") {
  RankingScore score(2);
  const std::vector<float> first{5, 1, 2, 3}, second{2, 1, 3, 0}, third{1, 2, 3, 0}, tied{1, 1, 1, 0};
  score.add(first.data(), 3);
  CHECK(score.hitRate() == 1);
  CHECK(score.ndcg() == 1);
  score.add(second.data(), 3);
  CHECK(score.hitRate() == 1);
  CHECK(score.ndcg() == Approx((1 + 1 / std::log2(3)) / 2));
  score.add(third.data(), 3);
  score.add(tied.data(), 3);
  CHECK(score.hitRate() == 0.5);
  const std::vector<float> broken{std::numeric_limits<float>::quiet_NaN(), 1, 1, 1};
  score.add(broken.data(), 3);
  CHECK(score.users() == 5);
  CHECK(score.hits() == 2);
  CHECK(score.gain() == Approx(1 + 1 / std::log2(3)));
  CHECK(score.hitRate() == Approx(0.4));
  CHECK(RankingScore().hitRate() == 0);
}
