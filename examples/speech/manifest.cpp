// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <stdexcept>

#include "examples/common/lines.h"
#include "examples/speech/alphabet.h"
#include "examples/speech/samples.h"
#include "examples/speech/speech_data.h"
#include "examples/speech/wav.h"

namespace examples {

namespace fs = std::filesystem;

namespace {

class Listed final : public Utterances {
 public:
  /// rate: of the recordings before, 0: none; it becomes that of these.
  Listed(const fs::path& manifest, size_t limit, int& rate);

  size_t size() const override { return recordings_.size(); }
  Utterance read(size_t, size_t index) const override {
    Utterance utterance{{}, texts_[index]};
    appendSamples(recordings_[index], utterance.samples);
    return utterance;
  }

 private:
  std::vector<Recording> recordings_;
  std::vector<std::string> texts_;
};

std::string readTranscript(const fs::path& path) {
  const std::string text = readText(path);
  try {
    return cleanTranscript(text);
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(path.string() + ": " + error.what());
  }
}

Listed::Listed(const fs::path& manifest, size_t limit, int& rate) {
  const fs::path folder = manifest.parent_path();
  LineReader reader(manifest);
  std::string_view line;
  while ((limit == 0 || texts_.size() < limit) && reader.next(line)) {
    const size_t comma = line.find(',');
    if (comma == line.npos || line.find(',', comma + 1) != line.npos)
      reader.fail("a line is the path of a WAV file, one comma, and the path of its transcript");
    const auto recording = line.substr(0, comma), transcript = line.substr(comma + 1);
    if (recording.empty() || transcript.empty()) reader.fail("a path is empty");
    try {
      recordings_.push_back(readWav(folder / recording));
      joinRate(recordings_.back(), folder / recording, rate);
      texts_.push_back(readTranscript(folder / transcript));
    } catch (const std::runtime_error& error) {
      reader.fail(error.what());
    }
  }
}

fs::path findManifest(const fs::path& directory, const std::array<const char*, 2>& names) {
  for (const char* name : names)
    if (fs::is_regular_file(directory / name)) return directory / name;
  throw std::runtime_error(directory.string() + ": holds no " + names[0] + " or " + names[1]);
}

}  // namespace

SpeechData readManifests(const fs::path& directory, const SpeechLimits& limits) {
  if (!fs::is_directory(directory)) throw std::runtime_error(directory.string() + ": no such directory");
  SpeechData data;
  const auto train = findManifest(directory, {"train.csv", "an4_train_manifest.csv"});
  const auto test = findManifest(directory, {"test.csv", "an4_val_manifest.csv"});
  data.train = std::make_shared<Listed>(train, limits.train, data.rate);
  data.test = std::make_shared<Listed>(test, limits.test, data.rate);
  data.source = directory.string();
  return data;
}

}  // namespace examples
