// SPDX-License-Identifier: Apache-2.0
#include "examples/cnn/augment.h"

#include <array>
#include <cmath>
#include <utility>

namespace examples {

const Augmentation kCifar10Augmentation{{0.4914f, 0.4822f, 0.4465f}, {0.2023f, 0.1994f, 0.2010f}, 4, true, 0};
const Augmentation kCifar100Augmentation{{0.5071f, 0.4865f, 0.4409f}, {0.2673f, 0.2564f, 0.2762f}, 4, true, 15};
const Augmentation kMnistAugmentation{{0.1307f}, {0.3081f}, 0, false, 0};

namespace {

constexpr double kDegree = 3.14159265358979323846 / 180.0;

/// Where a pixel of the result comes from.
struct Motion {
  int shiftX = 0, shiftY = 0;  // of the source against the result
  bool mirror = false;
  double cosine = 1.0, sine = 0.0;
};

class PackedSource : public ImageSource {
 public:
  PackedSource(ImageSet set, const Augmentation& augmentation) : set_(std::move(set)), augmentation_(augmentation) {
    for (size_t channel = 0; channel < set_.shape.channels; ++channel) {
      auto& table = tables_.emplace_back();
      for (size_t value = 0; value < table.size(); ++value)
        table[value] =
            (static_cast<float>(value) / 255.0f - augmentation.mean[channel]) / augmentation.deviation[channel];
    }
  }

  size_t size() const override { return set_.size(); }
  ImageShape shape() const override { return set_.shape; }
  int64_t label(size_t i) const override { return set_.labels[i]; }

  void test(size_t i, float* out) const override { draw(set_.image(i), Motion{}, out); }

  void train(size_t i, Random& random, float* out) const override {
    const auto shifts = static_cast<uint32_t>(2 * augmentation_.padding + 1);
    Motion motion;
    motion.shiftX = static_cast<int>(random.below(shifts)) - augmentation_.padding;
    motion.shiftY = static_cast<int>(random.below(shifts)) - augmentation_.padding;
    motion.mirror = augmentation_.mirror && random.below(2) == 1;
    if (augmentation_.degrees > 0) {
      constexpr uint32_t kSteps = 1 << 16;
      const double turn = static_cast<double>(random.below(kSteps + 1)) / kSteps * 2.0 - 1.0;
      motion.cosine = std::cos(turn * augmentation_.degrees * kDegree);
      motion.sine = std::sin(turn * augmentation_.degrees * kDegree);
    }
    draw(set_.image(i), motion, out);
  }

 private:
  void draw(const uint8_t* image, const Motion& motion, float* out) const {
    for (size_t channel = 0; channel < set_.shape.channels; ++channel) {
      const uint8_t* plane = image + channel * set_.shape.plane();
      if (motion.sine == 0.0) {
        drawShifted(plane, tables_[channel], motion, out + channel * set_.shape.plane());
      } else {
        drawTurned(plane, tables_[channel], motion, out + channel * set_.shape.plane());
      }
    }
  }

  using Table = std::array<float, 256>;

  void drawShifted(const uint8_t* plane, const Table& table, const Motion& motion, float* out) const {
    const int height = static_cast<int>(set_.shape.height), width = static_cast<int>(set_.shape.width);
    for (int y = 0; y < height; ++y) {
      const int sourceY = y + motion.shiftY;
      const bool inside = sourceY >= 0 && sourceY < height;
      const uint8_t* row = inside ? plane + static_cast<size_t>(sourceY) * set_.shape.width : nullptr;
      for (int x = 0; x < width; ++x) {
        const int sourceX = (motion.mirror ? width - 1 - x : x) + motion.shiftX;
        *out++ = row && sourceX >= 0 && sourceX < width ? table[row[sourceX]] : table[0];
      }
    }
  }

  // Nearest neighbour about the centre, after crop and mirror.
  void drawTurned(const uint8_t* plane, const Table& table, const Motion& motion, float* out) const {
    const int height = static_cast<int>(set_.shape.height), width = static_cast<int>(set_.shape.width);
    const double centreX = 0.5 * (width - 1), centreY = 0.5 * (height - 1);
    for (int y = 0; y < height; ++y) {
      for (int x = 0; x < width; ++x) {
        const double dx = x - centreX, dy = y - centreY;
        const int turnedX = static_cast<int>(std::lround(centreX + motion.cosine * dx + motion.sine * dy));
        const int turnedY = static_cast<int>(std::lround(centreY - motion.sine * dx + motion.cosine * dy));
        const int sourceX = (motion.mirror ? width - 1 - turnedX : turnedX) + motion.shiftX;
        const int sourceY = turnedY + motion.shiftY;
        const bool drawn = turnedX >= 0 && turnedX < width && turnedY >= 0 && turnedY < height;
        const bool inside = drawn && sourceX >= 0 && sourceX < width && sourceY >= 0 && sourceY < height;
        *out++ = inside ? table[plane[sourceY * width + sourceX]] : table[0];
      }
    }
  }

  ImageSet set_;
  Augmentation augmentation_;
  std::vector<Table> tables_;  // normalised value of every byte
};

}  // namespace

std::unique_ptr<ImageSource> makeSource(ImageSet set, const Augmentation& augmentation) {
  return std::make_unique<PackedSource>(std::move(set), augmentation);
}

}  // namespace examples
