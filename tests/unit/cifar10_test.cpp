// SPDX-License-Identifier: Apache-2.0
#include "examples/common/cifar10.h"

#include <unistd.h>

#include <algorithm>
#include "tests/support/catch.h"
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "examples/common/cifar10_batches.h"

namespace {

namespace fs = std::filesystem;
using namespace examples;

constexpr size_t kRecordBytes = 1 + kImagePixels;

// A directory of its own under the system's temporary one, removed at the end.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    static int count = 0;
    path_ = fs::temp_directory_path() / ("cifar10_test_" + std::to_string(getpid()) + "_" + std::to_string(count++));
    fs::create_directory(path_);
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const fs::path& path() const { return path_; }

  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path_ / name, std::ios::binary) << bytes;
  }

 private:
  fs::path path_;
};

// Record i has label (first + i) % 10 and pixels (first + i + position) % 256.
std::string records(size_t first, size_t count) {
  std::string bytes;
  for (size_t i = first; i < first + count; ++i) {
    bytes.push_back(static_cast<char>(i % kImageClasses));
    for (size_t p = 0; p < kImagePixels; ++p) bytes.push_back(static_cast<char>((i + p) % 256));
  }
  return bytes;
}

std::string messageOf(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no error";
}

std::vector<float> drawBatches(const ImageSet& set, const Shard& shard) {
  TrainingBatches batches(set, shard);
  std::vector<float> values;
  for (size_t step = 0; step < stepsPerEpoch(set.size(), shard.ranks, shard.batchSize); ++step) {
    std::vector<float> images(shard.batchSize * kImagePixels);
    std::vector<int64_t> labels(shard.batchSize);
    batches.next(images.data(), labels.data());
    values.insert(values.end(), images.begin(), images.end());
    for (const auto label : labels) values.push_back(static_cast<float>(label));
  }
  return values;
}

}  // namespace

TEST_CASE("cifar10: any number of training files is read in order of their names", "[cifar10]") {
  const TemporaryDirectory directory;
  directory.write("data_batch_2.bin", records(3, 2));
  directory.write("data_batch_1.bin", records(0, 3));
  directory.write("test_batch.bin", records(9, 1));
  directory.write("batches.meta.txt", "not an image file");

  const auto data = readCifar10(directory.path());
  REQUIRE(data.train.labels == std::vector<uint8_t>{0, 1, 2, 3, 4});
  REQUIRE(data.train.pixels.size() == 5 * kImagePixels);
  REQUIRE(data.train.image(4)[0] == 4);
  REQUIRE(data.train.image(4)[kPlanePixels + 7] == (4 + kPlanePixels + 7) % 256);
  REQUIRE(data.test.labels == std::vector<uint8_t>{9});
  REQUIRE_FALSE(data.synthetic);
}

TEST_CASE("cifar10: damaged input is refused with its file and reason", "[cifar10]") {
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
    const TemporaryDirectory directory;
    directory.write("data_batch_1.bin", row.training);
    directory.write("test_batch.bin", row.test);
    const auto message = messageOf([&] { readCifar10(directory.path()); });
    CHECK_THAT(message, Catch::Contains(row.file) && Catch::Contains(row.reason));
  }
}

TEST_CASE("cifar10: missing files and directories are named", "[cifar10]") {
  const TemporaryDirectory directory;
  const auto missing = directory.path() / "nowhere";
  CHECK_THAT(messageOf([&] { readCifar10(missing); }),
             Catch::Contains("nowhere") && Catch::Contains("no such directory"));
  CHECK_THAT(messageOf([&] { openCifar10(missing.string(), 1); }), Catch::Contains("no such directory"));
  CHECK_THAT(messageOf([&] { readCifar10(directory.path()); }), Catch::Contains("data_batch_*.bin"));
  directory.write("data_batch_1.bin", records(0, 1));
  CHECK_THAT(messageOf([&] { readCifar10(directory.path()); }),
             Catch::Contains("test_batch.bin") && Catch::Contains("no such file"));
}

TEST_CASE("cifar10: a limit keeps the first images", "[cifar10]") {
  auto data = makeSyntheticCifar10(20, 4, 3);
  const auto all = data.train;
  data.train.limit(0);
  REQUIRE(data.train.size() == 20);
  data.train.limit(99);
  REQUIRE(data.train.size() == 20);
  data.train.limit(5);
  REQUIRE(data.train.size() == 5);
  REQUIRE(data.train.pixels.size() == 5 * kImagePixels);
  REQUIRE(std::equal(data.train.pixels.begin(), data.train.pixels.end(), all.pixels.begin()));
}

TEST_CASE("cifar10: the synthetic set depends on its seed only", "[cifar10]") {
  const auto first = makeSyntheticCifar10(200, 50, 7), again = makeSyntheticCifar10(200, 50, 7);
  const auto other = makeSyntheticCifar10(200, 50, 8);
  REQUIRE(first.synthetic);
  REQUIRE_THAT(first.source, Catch::Contains("SYNTHETIC"));
  REQUIRE(first.train.pixels == again.train.pixels);
  REQUIRE(first.train.labels == again.train.labels);
  REQUIRE(first.test.pixels == again.test.pixels);
  REQUIRE(first.train.pixels != other.train.pixels);
  REQUIRE(first.train.labels != first.test.labels);
  for (uint8_t label = 0; label < kImageClasses; ++label) {
    REQUIRE(std::count(first.train.labels.begin(), first.train.labels.end(), label) > 0);
  }
}

TEST_CASE("cifar10: the ranks' shards are disjoint and change with the epoch", "[cifar10]") {
  constexpr size_t kImages = 103, kRanks = 4, kBatch = 5;
  REQUIRE(stepsPerEpoch(kImages, kRanks, kBatch) == 5);
  std::vector<uint32_t> all;
  for (size_t rank = 0; rank < kRanks; ++rank) {
    const auto indices = shardIndices(kImages, {1, 0, rank, kRanks, kBatch});
    REQUIRE(indices.size() == 25);
    all.insert(all.end(), indices.begin(), indices.end());
  }
  std::sort(all.begin(), all.end());
  REQUIRE(std::adjacent_find(all.begin(), all.end()) == all.end());
  REQUIRE(all.back() < kImages);
  const auto epoch0 = shardIndices(kImages, {1, 0, 0, kRanks, kBatch});
  REQUIRE(epoch0 == shardIndices(kImages, {1, 0, 0, kRanks, kBatch}));
  REQUIRE(epoch0 != shardIndices(kImages, {1, 1, 0, kRanks, kBatch}));
  REQUIRE(epoch0 != shardIndices(kImages, {2, 0, 0, kRanks, kBatch}));
  REQUIRE(shardIndices(3, {1, 0, 0, kRanks, kBatch}).empty());
}

TEST_CASE("cifar10: pixels are normalised with the channel's mean and deviation", "[cifar10]") {
  std::vector<uint8_t> image(kImagePixels, 0);
  image[kPlanePixels] = 255;
  std::vector<float> values(kImagePixels);
  normaliseImage(image.data(), values.data());
  CHECK(values[0] == Approx(-0.4914 / 0.2023));
  CHECK(values[kPlanePixels] == Approx((1.0 - 0.4822) / 0.1994));
  CHECK(values[kImagePixels - 1] == Approx(-0.4465 / 0.2010));
}

TEST_CASE("cifar10: an augmented image is a crop of the padded one, maybe mirrored", "[cifar10]") {
  // One white pixel well inside: it must reappear once, moved by at most 4 pixels, before or after mirroring.
  constexpr size_t kX = 10, kY = 20;
  std::vector<uint8_t> image(kImagePixels, 0);
  for (size_t channel = 0; channel < kImageChannels; ++channel) {
    image[channel * kPlanePixels + kY * kImageSide + kX] = 255;
  }
  Random random(5);
  std::vector<float> values(kImagePixels);
  size_t mirrored = 0;
  constexpr size_t kDraws = 400;
  for (size_t draw = 0; draw < kDraws; ++draw) {
    augmentImage(image.data(), random, values.data());
    REQUIRE(std::count_if(values.begin(), values.end(), [](float v) { return v > 0.0f; }) == 3);
    const auto brightest = std::max_element(values.begin(), values.begin() + kPlanePixels) - values.begin();
    const auto x = static_cast<int>(static_cast<size_t>(brightest) % kImageSide);
    const auto y = static_cast<int>(static_cast<size_t>(brightest) / kImageSide);
    REQUIRE(std::abs(y - static_cast<int>(kY)) <= 4);
    const bool straight = std::abs(x - static_cast<int>(kX)) <= 4;
    const bool mirror = std::abs(x - static_cast<int>(kImageSide - 1 - kX)) <= 4;
    REQUIRE((straight || mirror));
    mirrored += mirror ? 1 : 0;
  }
  CHECK(mirrored > kDraws / 3);
  CHECK(mirrored < 2 * kDraws / 3);
}

TEST_CASE("cifar10: batches depend on seed, epoch and rank only", "[cifar10]") {
  const auto data = makeSyntheticCifar10(64, 1, 1);
  const auto reference = drawBatches(data.train, {1, 0, 0, 2, 8});
  REQUIRE(reference.size() == 4 * 8 * (kImagePixels + 1));
  REQUIRE(std::all_of(reference.begin(), reference.end(), [](float v) { return std::isfinite(v); }));
  CHECK(reference == drawBatches(data.train, {1, 0, 0, 2, 8}));
  CHECK(reference != drawBatches(data.train, {2, 0, 0, 2, 8}));
  CHECK(reference != drawBatches(data.train, {1, 1, 0, 2, 8}));
  CHECK(reference != drawBatches(data.train, {1, 0, 1, 2, 8}));
}

TEST_CASE("cifar10: a batch past the end of the epoch is refused", "[cifar10]") {
  const auto data = makeSyntheticCifar10(8, 1, 1);
  TrainingBatches batches(data.train, {1, 0, 0, 1, 8});
  std::vector<float> images(8 * kImagePixels);
  std::vector<int64_t> labels(8);
  batches.next(images.data(), labels.data());
  REQUIRE_THROWS_AS(batches.next(images.data(), labels.data()), std::logic_error);
}
