// SPDX-License-Identifier: Apache-2.0
#include "examples/cnn/images.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include "examples/cnn/augment.h"
#include "examples/cnn/cifar.h"
#include "examples/cnn/jpeg_folder.h"

namespace examples {

namespace {

constexpr const char* kDefaultParent = "../shared/data/";
constexpr size_t kSyntheticTrainImages = 10000;
constexpr size_t kSyntheticTestImages = 2000;

struct PackedFormat {
  const char* name;
  ImageHalves (*read)(const std::filesystem::path&);
  const Augmentation* augmentation;
  size_t classes;
};

constexpr std::array<PackedFormat, 3> kFormats{{{"cifar10", readCifar10, &kCifar10Augmentation, 10},
                                                {"cifar100", readCifar100, &kCifar100Augmentation, 100},
                                                {"mnist", readMnist, &kMnistAugmentation, 10}}};

ImageData pack(ImageHalves halves, const ImageRequest& request, const Augmentation& augmentation, size_t classes) {
  halves.train.limit(request.trainLimit);
  halves.test.limit(request.testLimit);
  ImageData data;
  data.train = makeSource(std::move(halves.train), augmentation);
  data.test = makeSource(std::move(halves.test), augmentation);
  data.classes = classes;
  return data;
}

ImageData synthetic(const ImageRequest& request) {
  auto data =
      pack(makeSynthetic(kSyntheticTrainImages, kSyntheticTestImages, request.seed), request, kCifar10Augmentation, 10);
  data.name = "synthetic";
  data.source = "SYNTHETIC images, no real data set (seed " + std::to_string(request.seed) + ")";
  return data;
}

ImageData openPacked(const PackedFormat& format, const ImageRequest& request) {
  auto directory = request.directory;
  if (directory.empty()) directory = std::string(kDefaultParent) + format.name;
  if (request.directory.empty() && !std::filesystem::is_directory(directory)) return synthetic(request);
  auto halves = format.read(directory);
  const size_t files = halves.trainingFiles;
  auto data = pack(std::move(halves), request, *format.augmentation, format.classes);
  data.name = format.name;
  data.source = directory + " (" + std::to_string(files) + (files == 1 ? " training file)" : " training files)");
  return data;
}

// ---- the synthetic set ----

constexpr size_t kClasses = 10;
constexpr size_t kPatternCells = 4;  // a side
constexpr size_t kSide = 32;
constexpr size_t kCellPixels = kSide / kPatternCells;
constexpr uint32_t kMaxShift = 4;
constexpr int kNoise = 80;

using Pattern = std::array<uint8_t, 3 * kPatternCells * kPatternCells>;

std::array<Pattern, kClasses> makePatterns(uint64_t seed) {
  Random random(seed, 1);
  std::array<Pattern, kClasses> patterns{};
  for (auto& pattern : patterns) {
    for (auto& cell : pattern) cell = static_cast<uint8_t>(64 + random.below(128));
  }
  return patterns;
}

void drawImage(const Pattern& pattern, Random& random, const ImageShape& shape, uint8_t* image) {
  const size_t shiftX = random.below(2 * kMaxShift + 1), shiftY = random.below(2 * kMaxShift + 1);
  for (size_t i = 0; i < shape.pixels(); ++i) {
    const size_t channel = i / shape.plane();
    const size_t y = (i % shape.plane()) / kSide, x = i % kSide;
    const size_t cellY = (y + shiftY) % kSide / kCellPixels, cellX = (x + shiftX) % kSide / kCellPixels;
    const int colour = pattern[(channel * kPatternCells + cellY) * kPatternCells + cellX];
    const int noise = static_cast<int>(random.below(2 * kNoise + 1)) - kNoise;
    image[i] = static_cast<uint8_t>(std::clamp(colour + noise, 0, 255));
  }
}

ImageSet makeImages(size_t count, const std::array<Pattern, kClasses>& patterns, Random random) {
  ImageSet set;
  set.labels.resize(count);
  set.pixels.resize(count * set.shape.pixels());
  for (size_t i = 0; i < count; ++i) {
    set.labels[i] = static_cast<uint16_t>(random.below(kClasses));
    drawImage(patterns[set.labels[i]], random, set.shape, set.pixels.data() + i * set.shape.pixels());
  }
  return set;
}

}  // namespace

void ImageSet::limit(size_t count) {
  if (count == 0 || count >= size()) return;
  labels.resize(count);
  pixels.resize(count * shape.pixels());
}

ImageHalves makeSynthetic(size_t trainImages, size_t testImages, uint64_t seed) {
  const auto patterns = makePatterns(seed);
  ImageHalves data;
  data.train = makeImages(trainImages, patterns, Random(seed, 2));
  data.test = makeImages(testImages, patterns, Random(seed, 3));
  return data;
}

ImageData openImages(const ImageRequest& request) {
  if (request.data == "synthetic") return synthetic(request);
  if (request.data == "folder") return openJpegFolder(request);
  for (const auto& format : kFormats)
    if (request.data == format.name) return openPacked(format, request);
  throw std::runtime_error("unknown data set '" + request.data + "'");
}

}  // namespace examples
