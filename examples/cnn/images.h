// SPDX-License-Identifier: Apache-2.0
// Labelled images, and what a network gets to see of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "examples/common/random.h"

namespace examples {

struct ImageShape {
  size_t channels = 3;
  size_t height = 32;
  size_t width = 32;

  size_t plane() const { return height * width; }
  size_t pixels() const { return channels * plane(); }
};

/// Images in memory, planar, a byte a pixel.
struct ImageSet {
  ImageShape shape;
  std::vector<uint8_t> pixels;
  std::vector<uint16_t> labels;

  size_t size() const { return labels.size(); }
  const uint8_t* image(size_t i) const { return pixels.data() + i * shape.pixels(); }

  /// Keeps the first count images; 0 or more than there are keeps all.
  void limit(size_t count);
};

/// One half of a data set: normalised planar floats and labels. Any thread.
class ImageSource {
 public:
  virtual ~ImageSource() = default;
  virtual size_t size() const = 0;
  virtual ImageShape shape() const = 0;  // of what train and test write
  virtual int64_t label(size_t i) const = 0;

  /// Image i as it comes, and changed at random as published trainers do.
  virtual void test(size_t i, float* out) const = 0;
  virtual void train(size_t i, Random& random, float* out) const = 0;
};

struct ImageData {
  std::unique_ptr<ImageSource> train, test;
  size_t classes = 0;
  std::string name;    // "cifar10"
  std::string source;  // for people: where it comes from
};

/// What --data and its friends ask for.
struct ImageRequest {
  std::string data = "cifar10";  // cifar10, cifar100, mnist, folder or synthetic
  std::string directory;         // empty: ../shared/data/ and the name, or where that is missing synthetic images
  size_t trainLimit = 0;         // 0: all
  size_t testLimit = 0;
  size_t side = 224;  // of images from a folder
  uint64_t seed = 1;  // of synthetic images
};

/// Errors: std::runtime_error names the file and what is wrong with it.
ImageData openImages(const ImageRequest& request);

}  // namespace examples
