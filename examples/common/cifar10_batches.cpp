// SPDX-License-Identifier: Apache-2.0
#include "examples/common/cifar10_batches.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace examples {

namespace {

constexpr int kPadding = 4;
constexpr int kSide = static_cast<int>(kImageSide);
constexpr std::array<float, kImageChannels> kMean{0.4914f, 0.4822f, 0.4465f};
constexpr std::array<float, kImageChannels> kDeviation{0.2023f, 0.1994f, 0.2010f};

constexpr float normalised(size_t channel, int value) {
  return (static_cast<float>(value) / 255.0f - kMean[channel]) / kDeviation[channel];
}

using PixelTable = std::array<std::array<float, 256>, kImageChannels>;

constexpr PixelTable makePixelTable() {
  PixelTable table{};
  for (size_t channel = 0; channel < kImageChannels; ++channel) {
    for (int value = 0; value < 256; ++value) table[channel][static_cast<size_t>(value)] = normalised(channel, value);
  }
  return table;
}

constexpr PixelTable kPixelTable = makePixelTable();

struct Crop {
  int shiftX;  // of the source against the result, -kPadding to kPadding
  int shiftY;
  bool mirror;
};

void cropRow(const uint8_t* row, const Crop& crop, size_t channel, float* out) {
  const auto& table = kPixelTable[channel];
  for (int x = 0; x < kSide; ++x) {
    const int source = (crop.mirror ? kSide - 1 - x : x) + crop.shiftX;
    out[x] = source >= 0 && source < kSide ? table[row[source]] : table[0];
  }
}

}  // namespace

size_t stepsPerEpoch(size_t images, size_t ranks, size_t batchSize) { return images / (ranks * batchSize); }

std::vector<uint32_t> shardIndices(size_t images, const Shard& shard) {
  std::vector<uint32_t> order(images);
  std::iota(order.begin(), order.end(), 0u);
  Random random(shard.seed, 4, shard.epoch);
  for (size_t i = images; i > 1; --i) std::swap(order[i - 1], order[random.below(static_cast<uint32_t>(i))]);

  const size_t count = stepsPerEpoch(images, shard.ranks, shard.batchSize) * shard.batchSize;
  std::vector<uint32_t> indices(count);
  for (size_t i = 0; i < count; ++i) indices[i] = order[shard.rank + i * shard.ranks];
  return indices;
}

void normaliseImage(const uint8_t* image, float* out) {
  for (size_t i = 0; i < kImagePixels; ++i) out[i] = kPixelTable[i / kPlanePixels][image[i]];
}

void augmentImage(const uint8_t* image, Random& random, float* out) {
  constexpr auto kShifts = static_cast<uint32_t>(2 * kPadding + 1);
  Crop crop{};
  crop.shiftX = static_cast<int>(random.below(kShifts)) - kPadding;
  crop.shiftY = static_cast<int>(random.below(kShifts)) - kPadding;
  crop.mirror = random.below(2) == 1;
  static constexpr std::array<uint8_t, kImageSide> kBlackRow{};
  for (size_t channel = 0; channel < kImageChannels; ++channel) {
    const uint8_t* plane = image + channel * kPlanePixels;
    for (int y = 0; y < kSide; ++y) {
      const int source = y + crop.shiftY;
      const bool inside = source >= 0 && source < kSide;
      const uint8_t* row = inside ? plane + static_cast<size_t>(source) * kImageSide : kBlackRow.data();
      cropRow(row, crop, channel, out + channel * kPlanePixels + static_cast<size_t>(y) * kImageSide);
    }
  }
}

TrainingBatches::TrainingBatches(const ImageSet& set, const Shard& shard)
    : set_(set),
      batchSize_(shard.batchSize),
      indices_(shardIndices(set.size(), shard)),
      random_(shard.seed, 5 + shard.epoch, 1 + shard.rank) {}

void TrainingBatches::next(float* images, int64_t* labels) {
  if (position_ + batchSize_ > indices_.size()) throw std::logic_error("TrainingBatches: the epoch is over");
  for (size_t i = 0; i < batchSize_; ++i) {
    const size_t index = indices_[position_ + i];
    augmentImage(set_.image(index), random_, images + i * kImagePixels);
    labels[i] = set_.labels[index];
  }
  position_ += batchSize_;
}

}  // namespace examples
