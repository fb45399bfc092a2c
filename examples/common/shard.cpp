// SPDX-License-Identifier: Apache-2.0
#include "examples/common/shard.h"

#include <numeric>
#include <utility>

#include "examples/common/random.h"

namespace examples {

namespace {

constexpr uint64_t kOrderStream = 4;
constexpr uint64_t kPartStream = 6;

std::vector<uint32_t> permutation(size_t first, size_t count, Random random) {
  std::vector<uint32_t> order(count);
  std::iota(order.begin(), order.end(), static_cast<uint32_t>(first));
  for (size_t i = count; i > 1; --i) std::swap(order[i - 1], order[random.below(static_cast<uint32_t>(i))]);
  return order;
}

}  // namespace

size_t stepsPerEpoch(size_t samples, size_t ranks, size_t batchSize) { return samples / (ranks * batchSize); }

std::vector<uint32_t> shardIndices(size_t samples, const Shard& shard) {
  const size_t count = stepsPerEpoch(samples, shard.ranks, shard.batchSize) * shard.batchSize;
  if (shard.sharding == Sharding::Contiguous) {
    const size_t first = samples * shard.rank / shard.ranks, end = samples * (shard.rank + 1) / shard.ranks;
    auto part = permutation(first, end - first, Random(shard.seed, kPartStream + shard.epoch, 1 + shard.rank));
    part.resize(count);
    return part;
  }
  const auto order = permutation(0, samples, Random(shard.seed, kOrderStream, shard.epoch));
  std::vector<uint32_t> indices(count);
  for (size_t i = 0; i < count; ++i) indices[i] = order[shard.rank + i * shard.ranks];
  return indices;
}

}  // namespace examples
