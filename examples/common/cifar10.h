// SPDX-License-Identifier: Apache-2.0
// CIFAR-10 in its binary format (Krizhevsky 2009): a record is 1 label byte and 3 colour planes of 32 x 32 bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace examples {

constexpr size_t kImageSide = 32;
constexpr size_t kImageChannels = 3;
constexpr size_t kPlanePixels = kImageSide * kImageSide;
constexpr size_t kImagePixels = kImageChannels * kPlanePixels;
constexpr size_t kImageClasses = 10;

struct ImageSet {
  std::vector<uint8_t> pixels;  // kImagePixels an image, planar
  std::vector<uint8_t> labels;

  size_t size() const { return labels.size(); }
  const uint8_t* image(size_t i) const { return pixels.data() + i * kImagePixels; }

  /// Keeps the first count images; 0 or more than there are keeps all.
  void limit(size_t count);
};

struct Cifar10 {
  ImageSet train;
  ImageSet test;
  std::string source;  // for people: where it comes from
  bool synthetic = false;
};

/// Reads data_batch_*.bin (any number, in order of their names) and test_batch.bin.
/// Errors: std::runtime_error names the file and what is wrong with it.
Cifar10 readCifar10(const std::filesystem::path& directory);

/// Made-up images of the same shape that a network can learn: a coarse colour pattern for every class, moved a little,
/// under noise. Equal arguments give equal bytes on every platform.
Cifar10 makeSyntheticCifar10(size_t trainImages, size_t testImages, uint64_t seed);

/// directory, if given; else ../shared/data/cifar10 if it exists; else a synthetic set made from the seed.
Cifar10 openCifar10(const std::string& directory, uint64_t seed);

}  // namespace examples
