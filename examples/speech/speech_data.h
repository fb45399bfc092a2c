// SPDX-License-Identifier: Apache-2.0
// Spoken utterances and what was said: recordings that manifests list, spoken digits, or made-up tones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace examples {

struct Utterance {
  std::vector<float> samples;  // from -1 to 1
  std::string text;            // a clean transcript
};

/// The utterances of one pass, which may differ from pass to pass. Any thread may read them.
class Utterances {
 public:
  virtual ~Utterances() = default;
  virtual size_t size() const = 0;
  virtual Utterance read(size_t epoch, size_t index) const = 0;
};

struct SpeechLimits {
  size_t train = 0;  // utterances of a pass, 0: all
  size_t test = 0;
};

struct SpeechData {
  std::shared_ptr<const Utterances> train, test;
  int rate = 0;        // samples per second, the same for all
  std::string source;  // for people: where it comes from
  bool synthetic = false;
};

/// Reads train.csv and test.csv, or the names that deepspeech.pytorch gives AN4: an4_train_manifest.csv and
/// an4_val_manifest.csv. A line is an utterance: the path of its WAV file, a comma, and the path of a text file with
/// its transcript; relative paths begin at the manifest's folder. Errors: std::runtime_error names the file, the line
/// and what is wrong. All recordings stay in memory.
SpeechData readManifests(const std::filesystem::path& directory, const SpeechLimits& limits);

/// Reads DIGIT_SPEAKER_TAKE.wav from the folder or its subfolder recordings (Free Spoken Digit Dataset: Jackson et
/// al.). An utterance is one to seven takes of one speaker without a pause between them, spelled as words. As the data
/// set rules, takes 0 to 4 test and the others train. Every pass draws new digits and takes from the seed; the test has
/// every take twice, in an order that no seed changes. Errors: as above.
SpeechData readDigits(const std::filesystem::path& directory, const SpeechLimits& limits, uint64_t seed);

/// Made-up speech: every letter has a tone. Equal arguments give equal utterances on every platform.
SpeechData makeSyntheticSpeech(const SpeechLimits& limits, uint64_t seed);

/// Manifests of directory, or digits, if one is given; else ../shared/data/fsdd if it exists; else synthetic tones from
/// the seed. Errors: as above; also if both are given.
SpeechData openSpeech(const std::string& directory, const std::string& digits, const SpeechLimits& limits,
                      uint64_t seed);

}  // namespace examples
