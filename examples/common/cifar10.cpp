// SPDX-License-Identifier: Apache-2.0
#include "examples/common/cifar10.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <stdexcept>

#include "examples/common/random.h"

namespace examples {

namespace fs = std::filesystem;

namespace {

constexpr size_t kRecordBytes = 1 + kImagePixels;
constexpr const char* kDefaultDirectory = "../shared/data/cifar10";
constexpr size_t kSyntheticTrainImages = 10000;
constexpr size_t kSyntheticTestImages = 2000;

[[noreturn]] void fail(const fs::path& path, const std::string& what) {
  throw std::runtime_error("CIFAR-10: " + path.string() + ": " + what);
}

std::vector<char> readFile(const fs::path& path) {
  if (!fs::is_regular_file(path)) fail(path, "no such file");
  const auto bytes = fs::file_size(path);
  if (bytes == 0) fail(path, "the file is empty");
  if (bytes % kRecordBytes != 0) {
    fail(path, "truncated or not the binary format: " + std::to_string(bytes) + " bytes are not a whole number of " +
                   std::to_string(kRecordBytes) + "-byte records");
  }
  std::vector<char> content(bytes);
  std::ifstream stream(path, std::ios::binary);
  if (!stream.read(content.data(), static_cast<std::streamsize>(bytes))) fail(path, "cannot be read");
  return content;
}

void appendFile(const fs::path& path, ImageSet& set) {
  const auto content = readFile(path);
  const size_t records = content.size() / kRecordBytes;
  set.pixels.reserve(set.pixels.size() + records * kImagePixels);
  for (size_t i = 0; i < records; ++i) {
    const char* record = content.data() + i * kRecordBytes;
    const auto label = static_cast<uint8_t>(record[0]);
    if (label >= kImageClasses) {
      fail(path, "record " + std::to_string(i) + " has label " + std::to_string(label) + ", labels are 0 to 9");
    }
    set.labels.push_back(label);
    set.pixels.insert(set.pixels.end(), record + 1, record + kRecordBytes);
  }
}

std::vector<fs::path> trainingFiles(const fs::path& directory) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(directory)) {
    const auto name = entry.path().filename().string();
    if (name.rfind("data_batch_", 0) == 0 && entry.path().extension() == ".bin") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

// ---- the synthetic set ----

constexpr size_t kPatternCells = 4;  // a side
constexpr size_t kCellPixels = kImageSide / kPatternCells;
constexpr uint32_t kMaxShift = 4;
constexpr int kNoise = 80;

using Pattern = std::array<uint8_t, kImageChannels * kPatternCells * kPatternCells>;

std::array<Pattern, kImageClasses> makePatterns(uint64_t seed) {
  Random random(seed, 1);
  std::array<Pattern, kImageClasses> patterns{};
  for (auto& pattern : patterns) {
    for (auto& cell : pattern) cell = static_cast<uint8_t>(64 + random.below(128));
  }
  return patterns;
}

void drawImage(const Pattern& pattern, Random& random, uint8_t* image) {
  const size_t shiftX = random.below(2 * kMaxShift + 1), shiftY = random.below(2 * kMaxShift + 1);
  for (size_t i = 0; i < kImagePixels; ++i) {
    const size_t channel = i / kPlanePixels;
    const size_t y = (i % kPlanePixels) / kImageSide, x = i % kImageSide;
    const size_t cellY = (y + shiftY) % kImageSide / kCellPixels, cellX = (x + shiftX) % kImageSide / kCellPixels;
    const int colour = pattern[(channel * kPatternCells + cellY) * kPatternCells + cellX];
    const int noise = static_cast<int>(random.below(2 * kNoise + 1)) - kNoise;
    image[i] = static_cast<uint8_t>(std::clamp(colour + noise, 0, 255));
  }
}

ImageSet makeImages(size_t count, const std::array<Pattern, kImageClasses>& patterns, Random random) {
  ImageSet set;
  set.labels.resize(count);
  set.pixels.resize(count * kImagePixels);
  for (size_t i = 0; i < count; ++i) {
    set.labels[i] = static_cast<uint8_t>(random.below(kImageClasses));
    drawImage(patterns[set.labels[i]], random, set.pixels.data() + i * kImagePixels);
  }
  return set;
}

}  // namespace

void ImageSet::limit(size_t count) {
  if (count == 0 || count >= size()) return;
  labels.resize(count);
  pixels.resize(count * kImagePixels);
}

Cifar10 readCifar10(const fs::path& directory) {
  if (!fs::is_directory(directory)) fail(directory, "no such directory");
  const auto files = trainingFiles(directory);
  if (files.empty()) fail(directory, "holds no data_batch_*.bin (the binary version of CIFAR-10 is needed)");
  Cifar10 data;
  for (const auto& file : files) appendFile(file, data.train);
  appendFile(directory / "test_batch.bin", data.test);
  data.source = directory.string() + " (" + std::to_string(files.size()) + " training files)";
  return data;
}

Cifar10 makeSyntheticCifar10(size_t trainImages, size_t testImages, uint64_t seed) {
  const auto patterns = makePatterns(seed);
  Cifar10 data;
  data.train = makeImages(trainImages, patterns, Random(seed, 2));
  data.test = makeImages(testImages, patterns, Random(seed, 3));
  data.source = "SYNTHETIC images, not CIFAR-10 (seed " + std::to_string(seed) + ")";
  data.synthetic = true;
  return data;
}

Cifar10 openCifar10(const std::string& directory, uint64_t seed) {
  if (!directory.empty()) return readCifar10(directory);
  if (fs::is_directory(kDefaultDirectory)) return readCifar10(kDefaultDirectory);
  return makeSyntheticCifar10(kSyntheticTrainImages, kSyntheticTestImages, seed);
}

}  // namespace examples
