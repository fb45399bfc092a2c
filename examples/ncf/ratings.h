// SPDX-License-Identifier: Apache-2.0
// MovieLens ratings (Harper and Konstan 2015) and the split into training and test that recommenders are compared by.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace examples {

struct Rating {
  uint32_t user;  // as in the file: any numbers
  uint32_t item;
  int64_t timestamp;
};

/// Reads ratings.csv (userId,movieId,rating,timestamp: MovieLens-20M, -25M, -latest) or ratings.dat
/// (user::item::rating::timestamp: MovieLens-1M, -10M). How much a film was liked is not kept: a rating is a visit.
/// Errors: std::runtime_error names the file, the line and what is wrong.
std::vector<Rating> readRatings(const std::filesystem::path& directory);

struct SplitOptions {
  size_t minRatings = 20;  // users with fewer are left out
  size_t testNegatives = 100;
  size_t maxUsers = 0;  // only so many, in the order of their first rating in the file; 0: all
  uint64_t seed = 1;
};

/// Leave one out (He et al. 2017): the latest rating of every user is the test, the others are the training set.
/// Users and items are numbered from 0 in the order of their first appearance.
struct Interactions {
  size_t users = 0;
  size_t items = 0;
  std::vector<uint32_t> trainUsers, trainItems;  // by user, then by time
  std::vector<uint32_t> testItems;               // one a user
  std::vector<uint32_t> testNegatives;           // negatives() a user, distinct, among what the user never rated
  std::string source;                            // for people: where they come from
  bool synthetic = false;

  size_t positives() const { return trainUsers.size(); }
  size_t negatives() const { return users == 0 ? 0 : testNegatives.size() / users; }
};

/// Of several ratings of a film by one user the latest counts; of equally late ones the one further down in the file.
/// Errors: std::runtime_error where no user has enough ratings, or one has rated nearly everything.
Interactions splitRatings(const std::vector<Rating>& ratings, const SplitOptions& options);

/// Made-up visits: users and items belong to one of eight groups, and three visits of four stay within the own group.
/// Equal arguments give equal ratings on every platform.
std::vector<Rating> makeSyntheticRatings(size_t users, size_t items, uint64_t seed);

/// directory, if given; else ../shared/data/ml-latest-small if it exists; else synthetic ratings made from the seed.
Interactions openInteractions(const std::string& directory, const SplitOptions& options);

}  // namespace examples
