// SPDX-License-Identifier: Apache-2.0
#include "examples/ncf/samples.h"

#include <cmath>
#include <stdexcept>

namespace examples {

namespace {

uint64_t sampleCount(const Interactions& data, const SampleShard& shard) {
  return static_cast<uint64_t>(data.positives()) * (1 + shard.negatives);
}

uint64_t pieceOf(const Interactions& data, const SampleShard& shard) {
  return shard.contiguous ? sampleCount(data, shard) / shard.ranks : sampleCount(data, shard);
}

}  // namespace

size_t TrainingSamples::stepsPerEpoch(const Interactions& data, const SampleShard& shard) {
  return sampleCount(data, shard) / (shard.ranks * shard.batchSize);
}

TrainingSamples::TrainingSamples(const Interactions& data, const SampleShard& shard)
    : data_(data),
      shard_(shard),
      first_(shard.contiguous ? shard.rank * pieceOf(data, shard) : 0),
      order_(pieceOf(data, shard), shard.seed, (shard.epoch << 10) + (shard.contiguous ? shard.rank : 0)) {}

void TrainingSamples::read(size_t step, int64_t* users, int64_t* items, float* labels) const {
  if (step >= stepsPerEpoch(data_, shard_)) throw std::logic_error("TrainingSamples: the epoch is over");
  for (size_t i = 0; i < shard_.batchSize; ++i) {
    const uint64_t own = step * shard_.batchSize + i;
    const uint64_t sample = first_ + order_(shard_.contiguous ? own : own * shard_.ranks + shard_.rank);
    const bool positive = sample < data_.positives();
    const size_t source = positive ? sample : (sample - data_.positives()) / shard_.negatives;
    Random random(shard_.seed, 16 + shard_.epoch, sample);
    users[i] = data_.trainUsers[source];
    items[i] = positive ? data_.trainItems[source] : random.below(static_cast<uint32_t>(data_.items));
    labels[i] = positive ? 1.0F : 0.0F;
  }
}

void RankingScore::add(const float* scores, size_t count) {
  size_t ahead = 0;
  for (size_t i = 1; i <= count; ++i) ahead += scores[i] < scores[0] ? 0 : 1;
  ++users_;
  if (ahead >= places_) return;
  hits_ += 1;
  gain_ += 1 / std::log2(static_cast<double>(ahead) + 2);
}

}  // namespace examples
