// SPDX-License-Identifier: Apache-2.0
// From images to the float batches a rank trains on: sharding, augmentation, normalisation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "examples/common/cifar10.h"
#include "examples/common/random.h"

namespace examples {

/// One rank's share of one pass over the training images.
struct Shard {
  uint64_t seed;
  uint64_t epoch;
  size_t rank;
  size_t ranks;
  size_t batchSize;  // images per rank and step
};

/// Steps of an epoch; images that do not fill a batch on every rank are dropped.
size_t stepsPerEpoch(size_t images, size_t ranks, size_t batchSize);

/// The rank's images in order: one permutation of all images, seeded by (seed, epoch) and so the same on all ranks, of
/// which rank r takes every ranks-th from the r-th on.
std::vector<uint32_t> shardIndices(size_t images, const Shard& shard);

/// One image as planar floats with mean 0 and deviation 1 per channel over the training set; out: kImagePixels.
void normaliseImage(const uint8_t* image, float* out);

/// As normaliseImage after a random crop from the image padded by 4 zero pixels, and a mirror image half of the time.
void augmentImage(const uint8_t* image, Random& random, float* out);

/// Runs through a shard. Equal shards give equal batches.
class TrainingBatches {
 public:
  TrainingBatches(const ImageSet& set, const Shard& shard);

  /// Fills batchSize images (planar, normalised, augmented) and labels. Call it stepsPerEpoch times at most.
  void next(float* images, int64_t* labels);

 private:
  const ImageSet& set_;
  size_t batchSize_;
  std::vector<uint32_t> indices_;
  size_t position_ = 0;
  Random random_;
};

}  // namespace examples
