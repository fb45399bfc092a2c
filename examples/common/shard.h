// SPDX-License-Identifier: Apache-2.0
// Which samples a rank sees, in which order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "examples/common/settings.h"

namespace examples {

/// One rank's share of one pass over the training samples.
struct Shard {
  uint64_t seed;
  uint64_t epoch;
  size_t rank;
  size_t ranks;
  size_t batchSize;  // samples per rank and step
  Sharding sharding = Sharding::Iid;
};

/// Steps of an epoch; samples that do not fill a batch on every rank are dropped.
size_t stepsPerEpoch(size_t samples, size_t ranks, size_t batchSize);

/// The rank's samples in order, batchSize for each step of the epoch. Iid: one permutation of all samples, seeded by
/// (seed, epoch) and so the same on all ranks, of which rank r takes every ranks-th from the r-th on. Contiguous: the
/// r-th part of the samples, permuted.
std::vector<uint32_t> shardIndices(size_t samples, const Shard& shard);

}  // namespace examples
