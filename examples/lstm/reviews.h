// SPDX-License-Identifier: Apache-2.0
// Film reviews with a verdict (Maas et al. 2011, "IMDB").
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace examples {

constexpr int32_t kPaddingWord = 0;
constexpr int32_t kUnknownWord = 1;

/// Reviews as ids of words, one after the other.
struct ReviewSet {
  std::vector<int32_t> tokens;
  std::vector<size_t> ends;     // of each review within tokens
  std::vector<uint8_t> labels;  // 1: the reviewer liked the film

  size_t size() const { return labels.size(); }
  size_t begin(size_t i) const { return i == 0 ? 0 : ends[i - 1]; }
  size_t length(size_t i) const { return ends[i] - begin(i); }
};

struct ReviewLimits {
  size_t vocabulary = 0;  // words with padding and unknown, the rarer ones become unknown; 0: all
  size_t trainReviews = 0;
  size_t testReviews = 0;  // 0: all; else as many as that of each verdict in turn
};

struct Reviews {
  ReviewSet train, test;
  size_t vocabulary = 0;
  std::string source;  // for people: where they come from
  bool synthetic = false;
};

/// Reads train.tsv and test.tsv, plain or .gz (label 0 or 1, stars, id, text), or else the folders train/pos,
/// train/neg, test/pos and test/neg of the original with one ID_STARS.txt a review. Words are runs of letters, digits
/// and apostrophes in lower case; the vocabulary comes from the training reviews. Errors: std::runtime_error names the
/// file, the line and what is wrong.
Reviews readReviews(const std::filesystem::path& directory, const ReviewLimits& limits);

/// Made-up reviews: a tenth of the vocabulary are words with a mood, half of them friendly, and three of four such
/// words in a review agree with its verdict. Equal arguments give equal words on every platform.
Reviews makeSyntheticReviews(const ReviewLimits& limits, uint64_t seed);

/// directory, if given; else ../shared/data/imdb if it exists; else synthetic reviews made from the seed.
Reviews openReviews(const std::string& directory, const ReviewLimits& limits, uint64_t seed);

/// The words of a review's text in order: as readReviews takes them apart.
std::vector<std::string> reviewWords(std::string_view text);

/// The last length words of each of the given reviews, column by column of a matrix with a row for each word; all begin
/// in the first row, and padding follows shorter ones. out: length * count.
void packReviews(const ReviewSet& set, const std::vector<uint32_t>& indices, size_t length, int64_t* out);

}  // namespace examples
