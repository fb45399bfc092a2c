// SPDX-License-Identifier: Apache-2.0
// What a recommender trains on, and how it is judged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "examples/common/permutation.h"
#include "examples/ncf/ratings.h"

namespace examples {

struct SampleShard {
  uint64_t seed;
  uint64_t epoch;
  size_t rank;
  size_t ranks;
  size_t batchSize;         // samples per rank and step
  size_t negatives = 4;     // drawn for each positive, new ones in every epoch
  bool contiguous = false;  // see TrainingSamples
};

/// One rank's samples of one epoch: every positive, and for each of them negatives: its user with an item drawn from
/// all items. They are shuffled before they are dealt to the ranks. Contiguous instead cuts the list [positives,
/// negatives] into one piece a rank and shuffles only within: with 4 negatives to a positive and 5 ranks the first rank
/// has all the positives and no other has one. Samples that do not fill a batch on every rank are left out.
class TrainingSamples {
 public:
  TrainingSamples(const Interactions& data, const SampleShard& shard);

  static size_t stepsPerEpoch(const Interactions& data, const SampleShard& shard);

  /// Batch number step of this rank; the label is 1 for a positive.
  void read(size_t step, int64_t* users, int64_t* items, float* labels) const;

 private:
  const Interactions& data_;
  SampleShard shard_;
  uint64_t first_;  // of the rank's piece, where contiguous
  Permutation order_;
};

/// Adds up hit rate and NDCG of the first places over users.
class RankingScore {
 public:
  explicit RankingScore(size_t places = 10) : places_(places) {}

  /// scores: of the item that the user visited, then of count others. A tie counts against the model, as does NaN.
  void add(const float* scores, size_t count);
  size_t users() const { return users_; }
  double hits() const { return hits_; }
  double gain() const { return gain_; }
  double hitRate() const { return mean(hits_); }
  double ndcg() const { return mean(gain_); }

 private:
  double mean(double sum) const { return users_ == 0 ? 0 : sum / static_cast<double>(users_); }

  size_t places_;
  size_t users_ = 0;
  double hits_ = 0;
  double gain_ = 0;
};

}  // namespace examples
