// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <map>
#include <stdexcept>
#include <utility>

#include "examples/common/lines.h"
#include "examples/common/random.h"
#include "examples/speech/samples.h"
#include "examples/speech/speech_data.h"
#include "examples/speech/wav.h"

namespace examples {

namespace fs = std::filesystem;

namespace {

constexpr std::array<const char*, 10> kWords{"zero", "one", "two",   "three", "four",
                                             "five", "six", "seven", "eight", "nine"};
constexpr int64_t kTestTakes = 5;  // the first of every digit and speaker
constexpr int64_t kMostTakes = 1000000;
constexpr uint32_t kLongest = 7;  // digits of an utterance
constexpr size_t kMeanDigits = (1 + kLongest) / 2;
constexpr size_t kTestRounds = 2;
constexpr uint64_t kTestSeed = 1;  // of every run, so that runs of all seeds are judged alike

struct Take {
  size_t digit;
  Recording recording;
};
using Speakers = std::vector<std::vector<Take>>;

struct Name {
  int64_t digit, take;
  std::string speaker;
};

// DIGIT_SPEAKER_TAKE
Name parseName(const fs::path& path) {
  const std::string name = path.stem().string();
  const size_t first = name.find('_'), last = name.rfind('_');
  if (first != name.npos && last > first + 1) {
    const Name parsed{parseNumber(std::string_view(name).substr(0, first), 9),
                      parseNumber(std::string_view(name).substr(last + 1), kMostTakes),
                      name.substr(first + 1, last - first - 1)};
    if (parsed.digit >= 0 && parsed.take >= 0) return parsed;
  }
  throw std::runtime_error(path.string() + ": the name should be DIGIT_SPEAKER_TAKE.wav");
}

void say(const Take& take, Utterance& utterance) {
  appendSamples(take.recording, utterance.samples);
  if (!utterance.text.empty()) utterance.text += ' ';
  utterance.text += kWords.at(take.digit);
}

/// New strings in every pass. Those of one speaker are neighbours, so that contiguous shards have few voices each.
class DrawnStrings final : public Utterances {
 public:
  DrawnStrings(Speakers speakers, size_t count, uint64_t seed)
      : speakers_(std::move(speakers)), count_(count), seed_(seed) {}

  size_t size() const override { return count_; }
  Utterance read(size_t epoch, size_t index) const override {
    const auto& takes = speakers_[index * speakers_.size() / count_];
    Random random(seed_, 100 + epoch, index);
    Utterance utterance;
    for (uint32_t digits = 1 + random.below(kLongest); digits > 0; --digits)
      say(takes[random.below(static_cast<uint32_t>(takes.size()))], utterance);
    return utterance;
  }

 private:
  Speakers speakers_;
  size_t count_;
  uint64_t seed_;
};

/// The same strings always: each speaker's takes in a random order, cut at random places, and that again.
class FixedStrings final : public Utterances {
 public:
  explicit FixedStrings(Speakers speakers);

  size_t size() const override { return strings_.size(); }
  Utterance read(size_t, size_t index) const override {
    Utterance utterance;
    for (const Take* take : strings_[index]) say(*take, utterance);
    return utterance;
  }
  void limit(size_t count);

 private:
  Speakers speakers_;
  std::vector<std::vector<const Take*>> strings_;
};

FixedStrings::FixedStrings(Speakers speakers) : speakers_(std::move(speakers)) {
  Random random(kTestSeed, 99);
  for (size_t round = 0; round < kTestRounds; ++round) {
    for (const auto& takes : speakers_) {
      std::vector<const Take*> order;
      for (const auto& take : takes) order.push_back(&take);
      for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(static_cast<uint32_t>(i))]);
      for (size_t first = 0; first < order.size();) {
        const size_t last = std::min(order.size(), first + 1 + random.below(kLongest));
        strings_.emplace_back(order.begin() + static_cast<std::ptrdiff_t>(first),
                              order.begin() + static_cast<std::ptrdiff_t>(last));
        first = last;
      }
    }
  }
}

// Evenly, so that all speakers stay.
void FixedStrings::limit(size_t count) {
  if (count == 0 || count >= strings_.size()) return;
  std::vector<std::vector<const Take*>> kept;
  for (size_t i = 0; i < count; ++i) kept.push_back(strings_[i * strings_.size() / count]);
  strings_ = std::move(kept);
}

std::vector<fs::path> recordingsIn(const fs::path& directory) {
  if (!fs::is_directory(directory)) throw std::runtime_error(directory.string() + ": no such directory");
  const fs::path inner = directory / "recordings", folder = fs::is_directory(inner) ? inner : directory;
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".wav") paths.push_back(entry.path());
  if (paths.empty()) throw std::runtime_error(folder.string() + ": holds no .wav files");
  std::sort(paths.begin(), paths.end());  // a folder has no order of its own
  return paths;
}

}  // namespace

SpeechData readDigits(const fs::path& directory, const SpeechLimits& limits, uint64_t seed) {
  SpeechData data;
  std::map<std::string, std::array<std::vector<Take>, 2>> takes;  // of each speaker, to train and to test
  for (const auto& path : recordingsIn(directory)) {
    const Name name = parseName(path);
    auto recording = readWav(path);
    joinRate(recording, path, data.rate);
    takes[name.speaker][name.take < kTestTakes ? 1 : 0].push_back(
        {static_cast<size_t>(name.digit), std::move(recording)});
  }
  Speakers train, test;
  size_t count = 0;
  for (auto& [speaker, of] : takes) {
    if (of[0].empty())
      throw std::runtime_error(directory.string() + ": " + speaker + " has no take from 5 on to train");
    if (of[1].empty())
      throw std::runtime_error(directory.string() + ": " + speaker + " has no take from 0 to 4 to test");
    count += of[0].size();
    train.push_back(std::move(of[0]));
    test.push_back(std::move(of[1]));
  }
  const size_t strings = std::max(train.size(), count / kMeanDigits);  // a pass has about every take once
  data.train = std::make_shared<DrawnStrings>(std::move(train), limits.train == 0 ? strings : limits.train, seed);
  const auto fixed = std::make_shared<FixedStrings>(std::move(test));
  fixed->limit(limits.test);
  data.test = fixed;
  data.source = directory.string();
  return data;
}

}  // namespace examples
