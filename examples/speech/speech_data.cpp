// SPDX-License-Identifier: Apache-2.0
#include "examples/speech/speech_data.h"

#include <cmath>
#include <stdexcept>

#include "examples/common/random.h"

namespace examples {

namespace fs = std::filesystem;

namespace {

constexpr const char* kDefaultDigits = "../shared/data/fsdd";

constexpr double kPi = 3.14159265358979323846;
constexpr int kRate = 8000;
constexpr size_t kTone = 400, kPause = 160;  // samples: 50 and 20 ms
constexpr uint32_t kLetters = 8;
constexpr double kLowest = 300, kSpacing = 350;  // Hz
constexpr double kLoud = 0.3, kNoise = 0.02;
constexpr uint32_t kMostWords = 2, kLongestWord = 2;
constexpr size_t kTrain = 400, kTest = 40;

class Tones final : public Utterances {
 public:
  Tones(size_t count, uint64_t seed, uint64_t stream) : count_(count), seed_(seed), stream_(stream) {}

  size_t size() const override { return count_; }
  Utterance read(size_t epoch, size_t index) const override;

 private:
  size_t count_;
  uint64_t seed_, stream_;
};

Utterance Tones::read(size_t, size_t index) const {
  Random random(seed_, stream_, 1 + index);
  Utterance utterance;
  const auto speak = [&](size_t length, double frequency) {
    for (size_t i = 0; i < length; ++i) {
      const double noise = kNoise * (static_cast<double>(random.below(2001)) / 1000 - 1);
      const double phase = 2 * kPi * frequency * static_cast<double>(i) / kRate;
      utterance.samples.push_back(static_cast<float>(kLoud * std::sin(phase) + noise));
    }
  };
  const uint32_t words = 1 + random.below(kMostWords);
  for (uint32_t word = 0; word < words; ++word) {
    if (word > 0) {
      utterance.text += ' ';
      speak(kTone, 0);
    }
    for (uint32_t letter = 1 + random.below(kLongestWord); letter > 0; --letter) {
      const uint32_t tone = random.below(kLetters);
      utterance.text += static_cast<char>('a' + tone);
      speak(kTone, kLowest + kSpacing * tone);
      speak(kPause, 0);
    }
  }
  return utterance;
}

}  // namespace

SpeechData makeSyntheticSpeech(const SpeechLimits& limits, uint64_t seed) {
  const auto tones = [seed](size_t limit, size_t all, uint64_t stream) {
    return std::make_shared<Tones>(limit == 0 ? all : limit, seed, stream);
  };
  return {tones(limits.train, kTrain, 1), tones(limits.test, kTest, 2), kRate,
          "SYNTHETIC tones, not speech (seed " + std::to_string(seed) + ")", true};
}

SpeechData openSpeech(const std::string& directory, const std::string& digits, const SpeechLimits& limits,
                      uint64_t seed) {
  if (!directory.empty() && !digits.empty()) throw std::runtime_error("--data-dir and --digits are two sources");
  if (!directory.empty()) return readManifests(directory, limits);
  if (!digits.empty()) return readDigits(digits, limits, seed);
  if (fs::is_directory(kDefaultDigits)) return readDigits(kDefaultDigits, limits, seed);
  return makeSyntheticSpeech(limits, seed);
}

}  // namespace examples
