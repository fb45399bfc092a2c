// SPDX-License-Identifier: Apache-2.0
#include "examples/cnn/cifar.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <stdexcept>
#include <string>

#include "examples/common/lines.h"

namespace examples {

namespace fs = std::filesystem;

namespace {

/// One of the two formats.
struct Format {
  const char* name;
  const char* trainPrefix;
  const char* testFile;
  size_t labelBytes;  // the last of them counts
  size_t classes;

  size_t recordBytes() const { return labelBytes + ImageShape{}.pixels(); }
};

constexpr Format kCifar10{"CIFAR-10", "data_batch_", "test_batch.bin", 1, 10};
constexpr Format kCifar100{"CIFAR-100", "train", "test.bin", 2, 100};

[[noreturn]] void fail(const std::string& set, const fs::path& path, const std::string& what) {
  throw std::runtime_error(set + ": " + path.string() + ": " + what);
}

std::string readFile(const std::string& set, const fs::path& path) {
  if (!fs::is_regular_file(path)) fail(set, path, "no such file");
  std::string content(fs::file_size(path), '\0');
  if (content.empty()) fail(set, path, "the file is empty");
  std::ifstream stream(path, std::ios::binary);
  if (!stream.read(content.data(), static_cast<std::streamsize>(content.size()))) fail(set, path, "cannot be read");
  return content;
}

void appendFile(const Format& format, const fs::path& path, ImageSet& set) {
  const auto content = readFile(format.name, path);
  if (content.size() % format.recordBytes() != 0) {
    fail(format.name, path,
         "truncated or not the binary format: " + std::to_string(content.size()) + " bytes are not a whole number of " +
             std::to_string(format.recordBytes()) + "-byte records");
  }
  const size_t records = content.size() / format.recordBytes();
  set.pixels.reserve(set.pixels.size() + records * set.shape.pixels());
  for (size_t i = 0; i < records; ++i) {
    const char* record = content.data() + i * format.recordBytes();
    const auto label = static_cast<uint8_t>(record[format.labelBytes - 1]);
    if (label >= format.classes) {
      fail(format.name, path,
           "record " + std::to_string(i) + " has label " + std::to_string(label) + ", labels are 0 to " +
               std::to_string(format.classes - 1));
    }
    set.labels.push_back(label);
    set.pixels.insert(set.pixels.end(), record + format.labelBytes, record + format.recordBytes());
  }
}

std::vector<fs::path> trainingFiles(const Format& format, const fs::path& directory) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(directory)) {
    const auto name = entry.path().filename().string();
    if (name.rfind(format.trainPrefix, 0) == 0 && entry.path().extension() == ".bin") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

ImageHalves readCifar(const Format& format, const fs::path& directory) {
  if (!fs::is_directory(directory)) fail(format.name, directory, "no such directory");
  const auto files = trainingFiles(format, directory);
  if (files.empty()) {
    fail(format.name, directory,
         std::string("holds no ") + format.trainPrefix + "*.bin (the binary version is needed)");
  }
  ImageHalves data;
  data.trainingFiles = files.size();
  for (const auto& file : files) appendFile(format, file, data.train);
  appendFile(format, directory / format.testFile, data.test);
  return data;
}

// ---- MNIST ----

constexpr const char* kMnist = "MNIST";
constexpr size_t kMnistClasses = 10;
constexpr size_t kLongestIdxSide = 1 << 20;                 // the product of three of them does not wrap
constexpr uint32_t kIdxLabels = 0x801, kIdxImages = 0x803;  // unsigned bytes, one or three dimensions

uint32_t bigEndian(const std::string& content, size_t at) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<uint8_t>(content[at + i]);
  return value;
}

// The numbers behind the magic one; content must have exactly as many bytes as they say.
std::vector<size_t> idxSizes(const fs::path& path, const std::string& content, uint32_t magic) {
  const size_t dimensions = magic & 0xff, headerBytes = 4 * (1 + dimensions);
  if (content.size() < headerBytes) fail(kMnist, path, "truncated: no whole header");
  if (bigEndian(content, 0) != magic) fail(kMnist, path, "not such an idx file");
  std::vector<size_t> sizes;
  uint64_t bytes = 1;
  for (size_t i = 0; i < dimensions; ++i) {
    sizes.push_back(bigEndian(content, 4 * (1 + i)));
    if (sizes.back() > kLongestIdxSide) fail(kMnist, path, "damaged: a side of " + std::to_string(sizes.back()));
    bytes *= sizes.back();
  }
  if (bytes != content.size() - headerBytes) {
    fail(kMnist, path,
         "truncated or damaged: " + std::to_string(content.size() - headerBytes) +
             " bytes behind the header, which promises " + std::to_string(bytes));
  }
  return sizes;
}

// Where both are, the unpacked one counts.
fs::path packedOrNot(const fs::path& path) {
  const fs::path packed = path.string() + ".gz";
  return !fs::exists(path) && fs::exists(packed) ? packed : path;
}

std::string readIdxFile(const fs::path& path) {
  return path.extension() == ".gz" ? readPacked(path) : readFile(kMnist, path);
}

ImageSet readIdx(const fs::path& imageFile, const fs::path& labelFile) {
  const auto images = packedOrNot(imageFile), labels = packedOrNot(labelFile);
  const auto pixels = readIdxFile(images);
  const auto classes = readIdxFile(labels);
  const auto sizes = idxSizes(images, pixels, kIdxImages);
  const size_t count = idxSizes(labels, classes, kIdxLabels).at(0);
  if (count != sizes[0])
    fail(kMnist, labels, std::to_string(count) + " labels for " + std::to_string(sizes[0]) + " images");
  ImageSet set;
  set.shape = {1, sizes[1], sizes[2]};
  set.pixels.assign(pixels.end() - static_cast<std::ptrdiff_t>(count * set.shape.pixels()), pixels.end());
  for (size_t i = 0; i < count; ++i) {
    const auto label = static_cast<uint8_t>(classes[classes.size() - count + i]);
    if (label >= kMnistClasses) fail(kMnist, labels, "label " + std::to_string(label) + ", labels are 0 to 9");
    set.labels.push_back(label);
  }
  return set;
}

}  // namespace

ImageHalves readCifar10(const fs::path& directory) { return readCifar(kCifar10, directory); }
ImageHalves readCifar100(const fs::path& directory) { return readCifar(kCifar100, directory); }

ImageHalves readMnist(const fs::path& directory) {
  if (!fs::is_directory(directory)) fail(kMnist, directory, "no such directory");
  ImageHalves data;
  data.trainingFiles = 1;
  data.train = readIdx(directory / "train-images-idx3-ubyte", directory / "train-labels-idx1-ubyte");
  data.test = readIdx(directory / "t10k-images-idx3-ubyte", directory / "t10k-labels-idx1-ubyte");
  return data;
}

}  // namespace examples
