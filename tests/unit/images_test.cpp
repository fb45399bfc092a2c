// SPDX-License-Identifier: Apache-2.0
#include "examples/cnn/images.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <utility>
#include <vector>
#include "tests/support/catch.h"
#include "tests/support/folder.h"

#include "examples/cnn/augment.h"
#include "examples/cnn/cifar.h"

namespace {

namespace fs = std::filesystem;
using namespace sparsecoll::test;
using namespace examples;

const ImageShape kShape;
constexpr size_t kRecordBytes = 1 + 3072;

// Record i has label (first + i) % classes behind the coarse ones and pixels (first + i + position) % 256.
std::string records(size_t first, size_t count, size_t coarseBytes = 0, size_t classes = 10) {
  std::string bytes;
  for (size_t i = first; i < first + count; ++i) {
    bytes.append(coarseBytes, '\x13');
    bytes.push_back(static_cast<char>(i % classes));
    for (size_t p = 0; p < kShape.pixels(); ++p) bytes.push_back(static_cast<char>((i + p) % 256));
  }
  return bytes;
}

std::string bigEndian(uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(value >> shift & 0xff));
  return bytes;
}

// An idx file of count images of 2 x 3 pixels, or of count labels.
std::string idxImages(uint32_t count) {
  return bigEndian(0x803) + bigEndian(count) + bigEndian(2) + bigEndian(3) + std::string(count * 6, '\x07');
}
std::string idxLabels(uint32_t count, char label = 3) {
  return bigEndian(0x801) + bigEndian(count) + std::string(count, label);
}

}  // namespace

TEST_CASE("images: any number of CIFAR-10 training files is read in order of their names") {
  const Folder directory;
  directory.write("data_batch_2.bin", records(3, 2));
  directory.write("data_batch_1.bin", records(0, 3));
  directory.write("test_batch.bin", records(9, 1));
  directory.write("batches.meta.txt", "not an image file");

  const auto data = readCifar10(directory.path());
  REQUIRE(data.trainingFiles == 2);
  REQUIRE(data.train.labels == std::vector<uint16_t>{0, 1, 2, 3, 4});
  REQUIRE(data.train.pixels.size() == 5 * kShape.pixels());
  REQUIRE(data.train.image(4)[0] == 4);
  REQUIRE(data.train.image(4)[kShape.plane() + 7] == (4 + kShape.plane() + 7) % 256);
  REQUIRE(data.test.labels == std::vector<uint16_t>{9});
}

TEST_CASE("images: CIFAR-100 has a coarse label in front of the one that counts") {
  const Folder directory;
  directory.write("train.bin", records(97, 3, 1, 100));
  directory.write("test.bin", records(55, 1, 1, 100));
  const auto data = readCifar100(directory.path());
  REQUIRE(data.train.labels == std::vector<uint16_t>{97, 98, 99});
  REQUIRE(data.train.image(1)[0] == 98);
  REQUIRE(data.test.labels == std::vector<uint16_t>{55});
  directory.write("test.bin", records(100, 1, 1, 101));
  CHECK_THAT(messageOf([&] { readCifar100(directory.path()); }),
             Catch::Contains("record 0 has label 100, labels are 0 to 99"));
}

TEST_CASE("images: damaged CIFAR files are refused with their name and reason") {
  struct Row {
    const char* name;
    std::string training;
    std::string test;
    const char* file;
    const char* reason;
  };
  auto wrongLabel = records(0, 3);
  wrongLabel[2 * kRecordBytes] = 10;
  auto negativeLabel = records(0, 1);
  negativeLabel[0] = static_cast<char>(0xff);
  const auto good = records(0, 2);
  const std::vector<Row> rows{
      {"last byte is missing", good.substr(0, good.size() - 1), good, "data_batch_1.bin", "truncated"},
      {"a stray byte", good + 'x', good, "data_batch_1.bin", "not a whole number"},
      {"empty", "", good, "data_batch_1.bin", "empty"},
      {"label 10", wrongLabel, good, "data_batch_1.bin", "record 2 has label 10"},
      {"label 255", negativeLabel, good, "data_batch_1.bin", "label 255"},
      {"truncated test file", good, good.substr(1), "test_batch.bin", "truncated"},
  };
  for (const auto& row : rows) {
    INFO(row.name);
    const Folder directory;
    directory.write("data_batch_1.bin", row.training);
    directory.write("test_batch.bin", row.test);
    const auto message = messageOf([&] { readCifar10(directory.path()); });
    CHECK_THAT(message, Catch::Contains(row.file) && Catch::Contains(row.reason));
  }
}

TEST_CASE("images: missing files and directories are named") {
  const Folder directory;
  const auto missing = directory.path() / "nowhere";
  CHECK_THAT(messageOf([&] { readCifar10(missing); }),
             Catch::Contains("nowhere") && Catch::Contains("no such directory"));
  for (const char* data : {"cifar10", "cifar100", "mnist"}) {
    ImageRequest request;
    request.data = data;
    request.directory = missing.string();
    CHECK_THAT(messageOf([&] { openImages(request); }), Catch::Contains("no such directory"));
  }
  CHECK_THAT(messageOf([&] { readCifar10(directory.path()); }), Catch::Contains("data_batch_*.bin"));
  directory.write("data_batch_1.bin", records(0, 1));
  CHECK_THAT(messageOf([&] { readCifar10(directory.path()); }),
             Catch::Contains("test_batch.bin") && Catch::Contains("no such file"));
}

TEST_CASE("images: MNIST's idx files") {
  const Folder directory;
  const char* const trainImages = "train-images-idx3-ubyte";
  const char* const trainLabels = "train-labels-idx1-ubyte";
  directory.write(trainImages, idxImages(4));
  directory.write(trainLabels, idxLabels(4));
  directory.write("t10k-images-idx3-ubyte", idxImages(2));
  directory.write("t10k-labels-idx1-ubyte", idxLabels(2, 9));
  const auto data = readMnist(directory.path());
  REQUIRE(data.train.size() == 4);
  REQUIRE(data.train.shape.channels == 1);
  REQUIRE(data.train.shape.height == 2);
  REQUIRE(data.train.shape.width == 3);
  REQUIRE(data.train.image(3)[5] == 7);
  REQUIRE(data.test.labels == std::vector<uint16_t>{9, 9});

  struct Row {
    const char* file;
    std::string content;
    const char* reason;
  };
  const std::vector<Row> rows{
      {trainImages, "", "empty"},
      {trainImages, idxImages(4).substr(0, 9), "no whole header"},
      {trainImages, idxImages(4).substr(0, 30), "promises 24"},
      {trainImages, idxImages(4) + "x", "promises 24"},
      {trainImages, idxLabels(4) + std::string(20, 'x'), "not such an idx file"},
      {trainImages, "\x1f\x8b" + std::string(40, 'x'), "not such an idx file"},
      {trainLabels, idxLabels(3), "3 labels for 4 images"},
      {trainLabels, idxLabels(4, 10), "label 10"},
      {trainImages, bigEndian(0x803) + bigEndian(0xffffffff) + bigEndian(0xffffffff) + bigEndian(0xffffffff),
       "damaged"},
      {trainImages,
       bigEndian(0x803) + bigEndian(1) + bigEndian((1 << 20) + 1) + bigEndian(1) + std::string(1 << 20, 'x'),
       "a side of 1048577"}};
  for (const auto& row : rows) {
    directory.write(trainImages, idxImages(4));
    directory.write(trainLabels, idxLabels(4));
    directory.write(row.file, row.content);
    CHECK_THAT(messageOf([&] { readMnist(directory.path()); }),
               Catch::Contains(row.file) && Catch::Contains(row.reason));
  }
}

TEST_CASE("images: idx files that are there packed only") {
  const Folder directory;
  for (const auto& [half, count] : {std::pair{"train", 4u}, std::pair{"t10k", 2u}}) {
    directory.write(half + std::string("-images-idx3-ubyte.gz"), idxImages(count));  // what is not packed passes, too
    directory.write(half + std::string("-labels-idx1-ubyte.gz"), idxLabels(count));
  }
  CHECK(readMnist(directory.path()).train.size() == 4);
  directory.write("train-images-idx3-ubyte", idxImages(3));
  directory.write("train-labels-idx1-ubyte", idxLabels(3));
  CHECK(readMnist(directory.path()).train.size() == 3);
  directory.write("t10k-labels-idx1-ubyte.gz", idxLabels(1));
  CHECK_THAT(messageOf([&] { readMnist(directory.path()); }), Catch::Contains("1 labels for 2 images"));
}

TEST_CASE("images: a limit keeps the first images") {
  auto data = makeSynthetic(20, 4, 3);
  const auto all = data.train;
  data.train.limit(0);
  REQUIRE(data.train.size() == 20);
  data.train.limit(99);
  REQUIRE(data.train.size() == 20);
  data.train.limit(5);
  REQUIRE(data.train.size() == 5);
  REQUIRE(data.train.pixels.size() == 5 * kShape.pixels());
  REQUIRE(std::equal(data.train.pixels.begin(), data.train.pixels.end(), all.pixels.begin()));
}

TEST_CASE("images: the synthetic set depends on its seed only, and says what it is") {
  const auto first = makeSynthetic(200, 50, 7), again = makeSynthetic(200, 50, 7);
  const auto other = makeSynthetic(200, 50, 8);
  REQUIRE(first.train.pixels == again.train.pixels);
  REQUIRE(first.train.labels == again.train.labels);
  REQUIRE(first.test.pixels == again.test.pixels);
  REQUIRE(first.train.pixels != other.train.pixels);
  REQUIRE(first.train.labels != first.test.labels);
  for (uint16_t label = 0; label < 10; ++label) {
    REQUIRE(std::count(first.train.labels.begin(), first.train.labels.end(), label) > 0);
  }
  ImageRequest request;
  request.data = "synthetic";
  REQUIRE_THAT(openImages(request).source, Catch::Contains("SYNTHETIC"));
}

TEST_CASE("images: pixels are normalised with the channel's mean and deviation") {
  ImageSet set;
  set.pixels.assign(kShape.pixels(), 0);
  set.pixels[kShape.plane()] = 255;
  set.labels = {3};
  const auto source = makeSource(set, kCifar10Augmentation);
  std::vector<float> values(kShape.pixels());
  source->test(0, values.data());
  REQUIRE(source->label(0) == 3);
  CHECK(values[0] == Approx(-0.4914 / 0.2023));
  CHECK(values[kShape.plane()] == Approx((1.0 - 0.4822) / 0.1994));
  CHECK(values[kShape.pixels() - 1] == Approx(-0.4465 / 0.2010));
}

TEST_CASE("images: an augmented image is a crop of the padded one, maybe mirrored") {
  // One white pixel well inside: it must reappear once, moved by at most 4 pixels, before or after mirroring.
  constexpr int kX = 10, kY = 20, kSide = 32;
  ImageSet set;
  set.pixels.assign(kShape.pixels(), 0);
  set.labels = {0};
  for (size_t channel = 0; channel < 3; ++channel) set.pixels[channel * kShape.plane() + kY * kSide + kX] = 255;
  const auto source = makeSource(set, kCifar10Augmentation);
  Random random(5);
  std::vector<float> values(kShape.pixels());
  size_t mirrored = 0;
  constexpr size_t kDraws = 400;
  for (size_t draw = 0; draw < kDraws; ++draw) {
    source->train(0, random, values.data());
    REQUIRE(std::count_if(values.begin(), values.end(), [](float v) { return v > 0.0f; }) == 3);
    const auto end = values.begin() + static_cast<std::ptrdiff_t>(kShape.plane());
    const auto brightest = static_cast<int>(std::max_element(values.begin(), end) - values.begin());
    const int x = brightest % kSide, y = brightest / kSide;
    REQUIRE(std::abs(y - kY) <= 4);
    const bool straight = std::abs(x - kX) <= 4;
    const bool mirror = std::abs(x - (kSide - 1 - kX)) <= 4;
    REQUIRE((straight || mirror));
    mirrored += mirror ? 1 : 0;
  }
  CHECK(mirrored > kDraws / 3);
  CHECK(mirrored < 2 * kDraws / 3);
}

TEST_CASE("images: CIFAR-100's are turned as well, about their centre and by 15 degrees at most") {
  ImageSet set;
  set.pixels.assign(kShape.pixels(), 0);
  set.labels = {0};
  // A block about the centre stays there; a pixel 12 away from it moves by 12 * sin 15 degrees and the crop at most.
  for (size_t y = 14; y < 18; ++y)
    for (size_t x = 14; x < 18; ++x) set.pixels[y * 32 + x] = 255;
  const auto source = makeSource(set, kCifar100Augmentation);
  Random random(9);
  std::vector<float> values(kShape.pixels());
  bool turned = false;
  for (int draw = 0; draw < 200; ++draw) {
    source->train(0, random, values.data());
    const auto white = std::count_if(values.begin(), values.begin() + 1024, [](float v) { return v > 0.0f; });
    CHECK(white >= 12);
    CHECK(white <= 20);
    turned = turned || white != 16;
    for (int i = 0; i < 1024; ++i)
      if (values[static_cast<size_t>(i)] > 0.0f) REQUIRE((std::abs(i / 32 - 15) <= 9 && std::abs(i % 32 - 15) <= 9));
  }
  CHECK(turned);
}
