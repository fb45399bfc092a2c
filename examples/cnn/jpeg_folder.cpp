// SPDX-License-Identifier: Apache-2.0
#include "examples/cnn/jpeg_folder.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>

#include "examples/cnn/jpeg.h"

namespace examples {

namespace fs = std::filesystem;

namespace {

constexpr size_t kChannels = 3;
constexpr std::array<float, kChannels> kMean{0.485f, 0.456f, 0.406f};
constexpr std::array<float, kChannels> kDeviation{0.229f, 0.224f, 0.225f};
constexpr int kCropAttempts = 10;

[[noreturn]] void fail(const fs::path& path, const std::string& what) {
  throw std::runtime_error("JPEG folder: " + path.string() + ": " + what);
}

/// A part of a picture, in its pixels.
struct Part {
  double left, top, width, height;
};

double uniform(Random& random, double from, double to) {
  return from + (to - from) * static_cast<double>(random.next() >> 11) * 0x1p-53;
}

Part middle(double width, double height, double share) {
  const double side = std::min(width, height) * share;
  return {(width - side) / 2, (height - side) / 2, side, side};
}

// 8 to 100 % of the area, sides between 3:4 and 4:3.
Part randomPart(double width, double height, Random& random) {
  for (int attempt = 0; attempt < kCropAttempts; ++attempt) {
    const double area = width * height * uniform(random, 0.08, 1.0);
    const double ratio = std::exp(uniform(random, std::log(3.0 / 4.0), std::log(4.0 / 3.0)));
    const double partWidth = std::sqrt(area * ratio), partHeight = std::sqrt(area / ratio);
    if (partWidth > width || partHeight > height) continue;
    return {uniform(random, 0, width - partWidth), uniform(random, 0, height - partHeight), partWidth, partHeight};
  }
  return middle(width, height, 1.0);
}

// Which pixels of a side a result's pixel is the weighted mean of: a triangle as wide as the step between pixels, so
// that shrinking takes all of them into account.
struct Weights {
  size_t first = 0;
  std::vector<float> values;
};

std::vector<Weights> makeWeights(double from, double length, size_t count, size_t limit) {
  std::vector<Weights> all(count);
  const double step = length / static_cast<double>(count), reach = std::max(step, 1.0);
  for (size_t i = 0; i < count; ++i) {
    const double centre = from + (static_cast<double>(i) + 0.5) * step - 0.5;
    const double last = static_cast<double>(limit - 1);
    const auto first = static_cast<size_t>(std::clamp(std::ceil(centre - reach), 0.0, last));
    const auto end = static_cast<size_t>(std::clamp(std::floor(centre + reach), 0.0, last)) + 1;
    all[i].first = first;
    float sum = 0;
    for (size_t x = first; x < end; ++x) {
      const double weight = std::max(0.0, 1.0 - std::abs(static_cast<double>(x) - centre) / reach);
      all[i].values.push_back(static_cast<float>(weight));
      sum += static_cast<float>(weight);
    }
    if (sum <= 0) all[i].values.assign(all[i].values.size(), 1.0f), sum = static_cast<float>(all[i].values.size());
    for (auto& weight : all[i].values) weight /= sum;
  }
  return all;
}

// The part, scaled to side x side planar normalised floats: rows first, then columns.
void scale(const Picture& picture, const Part& part, size_t side, bool mirror, float* out) {
  const auto columns = makeWeights(part.left, part.width, side, picture.width);
  const auto rows = makeWeights(part.top, part.height, side, picture.height);
  std::vector<float> narrow(picture.height * side);
  for (size_t channel = 0; channel < kChannels; ++channel) {
    for (size_t y = rows.front().first; y < rows.back().first + rows.back().values.size(); ++y) {
      const uint8_t* row = picture.rgb.data() + y * picture.width * kChannels + channel;
      for (size_t x = 0; x < side; ++x) {
        const Weights& weights = columns[mirror ? side - 1 - x : x];
        float sum = 0;
        for (size_t i = 0; i < weights.values.size(); ++i)
          sum += weights.values[i] * static_cast<float>(row[(weights.first + i) * kChannels]);
        narrow[y * side + x] = sum;
      }
    }
    for (size_t y = 0; y < side; ++y) {
      for (size_t x = 0; x < side; ++x) {
        float sum = 0;
        for (size_t i = 0; i < rows[y].values.size(); ++i)
          sum += rows[y].values[i] * narrow[(rows[y].first + i) * side + x];
        *out++ = (sum / 255.0f - kMean[channel]) / kDeviation[channel];
      }
    }
  }
}

struct JpegFile {
  fs::path path;
  int64_t label;
};

class JpegSource : public ImageSource {
 public:
  JpegSource(std::vector<JpegFile> files, size_t side) : files_(std::move(files)), side_(side) {}

  size_t size() const override { return files_.size(); }
  ImageShape shape() const override { return {kChannels, side_, side_}; }
  int64_t label(size_t i) const override { return files_[i].label; }

  void test(size_t i, float* out) const override {
    const auto picture = readJpeg(files_[i].path);
    const auto part = middle(static_cast<double>(picture.width), static_cast<double>(picture.height), 7.0 / 8.0);
    scale(picture, part, side_, false, out);
  }

  void train(size_t i, Random& random, float* out) const override {
    const auto picture = readJpeg(files_[i].path);
    const auto part = randomPart(static_cast<double>(picture.width), static_cast<double>(picture.height), random);
    scale(picture, part, side_, random.below(2) == 1, out);
  }

 private:
  std::vector<JpegFile> files_;
  size_t side_;
};

std::vector<fs::path> sorted(const fs::path& directory, bool directories) {
  if (!fs::is_directory(directory)) fail(directory, "no such directory");
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(directory)) {
    auto suffix = entry.path().extension().string();
    std::transform(suffix.begin(), suffix.end(), suffix.begin(), [](unsigned char c) { return std::tolower(c); });
    const bool wanted = directories ? entry.is_directory() : suffix == ".jpg" || suffix == ".jpeg";
    if (wanted) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

// A limit takes every class in turn, so that it does not take the first class alone.
std::vector<JpegFile> listFiles(const fs::path& directory, const std::map<std::string, int64_t>& labels, size_t limit) {
  std::vector<std::vector<JpegFile>> classes;
  size_t count = 0;
  for (const auto& folder : sorted(directory, true)) {
    const auto label = labels.find(folder.filename().string());
    if (label == labels.end()) fail(folder, "a class that train does not have");
    auto& files = classes.emplace_back();
    for (const auto& path : sorted(folder, false)) files.push_back({path, label->second});
    count += files.size();
  }
  if (count == 0) fail(directory, "holds no CLASS/*.jpg");
  std::vector<JpegFile> all;
  for (size_t i = 0; all.size() < count; ++i) {
    for (const auto& files : classes)
      if (i < files.size()) all.push_back(files[i]);
  }
  if (limit > 0 && limit < all.size()) all.resize(limit);
  return all;
}

}  // namespace

ImageData openJpegFolder(const ImageRequest& request) {
  if (!canReadJpeg()) throw std::runtime_error("--data folder: this trainer was built without libjpeg-turbo");
  if (request.directory.empty()) throw std::runtime_error("--data folder needs a --data-dir");
  const fs::path root = request.directory;
  std::map<std::string, int64_t> labels;
  for (const auto& folder : sorted(root / "train", true))
    labels.emplace(folder.filename().string(), static_cast<int64_t>(labels.size()));
  ImageData data;
  data.train = std::make_unique<JpegSource>(listFiles(root / "train", labels, request.trainLimit), request.side);
  data.test = std::make_unique<JpegSource>(listFiles(root / "val", labels, request.testLimit), request.side);
  data.classes = labels.size();
  data.name = "folder";
  data.source = root.string();
  return data;
}

}  // namespace examples
