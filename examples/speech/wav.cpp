// SPDX-License-Identifier: Apache-2.0
#include "examples/speech/wav.h"

#include <cstring>
#include <fstream>
#include <stdexcept>
#include <string>
#include <utility>

namespace examples {

namespace fs = std::filesystem;

namespace {

constexpr uint64_t kRiffHeader = 12;
constexpr uint64_t kChunkHeader = 8;
constexpr uint64_t kFormatBytes = 16;
constexpr uint32_t kPcm = 1;
constexpr uint32_t kLowestRate = 1000, kHighestRate = 384000;
constexpr uint64_t kLargestFile = uint64_t{1} << 32;  // the format's own lengths end there

class WavFile {
 public:
  explicit WavFile(const fs::path& path) : path_(path) {
    if (!fs::is_regular_file(path)) fail("no such file");
    const uint64_t size = fs::file_size(path);
    if (size > kLargestFile) fail("longer than a WAV file can be");
    bytes_.resize(static_cast<size_t>(size));
    std::ifstream file(path, std::ios::binary);
    if (!file.read(bytes_.data(), static_cast<std::streamsize>(size))) fail("cannot be read");
  }

  Recording read();

 private:
  [[noreturn]] void fail(const std::string& what) const { throw std::runtime_error(path_.string() + ": " + what); }

  uint32_t number(uint64_t at, size_t count) const {
    uint32_t value = 0;
    for (size_t i = count; i-- > 0;) value = (value << 8) | static_cast<uint8_t>(bytes_[at + i]);
    return value;
  }
  bool holds(uint64_t at, const char* name) const { return std::memcmp(bytes_.data() + at, name, 4) == 0; }

  void readFormat(uint64_t at, uint64_t length);
  void readSamples(uint64_t at, uint64_t length);

  fs::path path_;
  std::string bytes_;
  Recording recording_;
};

void WavFile::readFormat(uint64_t at, uint64_t length) {
  if (recording_.rate != 0) fail("two fmt chunks");
  if (length < kFormatBytes) fail("a fmt chunk of " + std::to_string(length) + " bytes, which needs 16");
  const uint32_t format = number(at, 2), channels = number(at + 2, 2), rate = number(at + 4, 4);
  const uint32_t bytesPerSecond = number(at + 8, 4), frame = number(at + 12, 2), bits = number(at + 14, 2);
  if (format != kPcm) fail("format " + std::to_string(format) + ", and only PCM (1) is read");
  if (channels != 1) fail(std::to_string(channels) + " channels, and only one is read");
  if (bits != 16) fail(std::to_string(bits) + " bits a sample, and only 16 are read");
  if (rate < kLowestRate || rate > kHighestRate) fail(std::to_string(rate) + " samples a second");
  if (frame != 2 || bytesPerSecond != 2 * rate) fail("damaged: the fields of the fmt chunk contradict each other");
  recording_.rate = static_cast<int>(rate);
}

void WavFile::readSamples(uint64_t at, uint64_t length) {
  if (recording_.rate == 0) fail("damaged: a data chunk without a fmt chunk before it");
  if (!recording_.samples.empty()) fail("two data chunks");
  if (length == 0) fail("no samples");
  if (length % 2 != 0) fail("damaged: " + std::to_string(length) + " bytes of samples, which have two each");
  recording_.samples.resize(static_cast<size_t>(length / 2));
  for (size_t i = 0; i < recording_.samples.size(); ++i)
    recording_.samples[i] = static_cast<int16_t>(static_cast<uint16_t>(number(at + 2 * i, 2)));
}

Recording WavFile::read() {
  const uint64_t size = bytes_.size();
  if (size < kRiffHeader || !holds(0, "RIFF") || !holds(8, "WAVE")) fail("no WAV file: RIFF and WAVE do not open it");
  const uint64_t told = kChunkHeader + number(4, 4);
  if (told > size) fail("truncated: " + std::to_string(size) + " bytes of " + std::to_string(told));
  if (told < size) fail("damaged: " + std::to_string(size - told) + " bytes behind the end");
  for (uint64_t at = kRiffHeader; at < size;) {
    if (size - at < kChunkHeader) fail("damaged: the last chunk has no header");
    const uint64_t length = number(at + 4, 4), content = at + kChunkHeader;
    if (length > size - content) fail("damaged: a chunk goes on behind the end of the file");
    if (holds(at, "fmt ")) readFormat(content, length);
    if (holds(at, "data")) readSamples(content, length);
    at = content + length + length % 2;  // chunks begin at even places; the last one may lack its filling
  }
  if (recording_.samples.empty()) fail("no data chunk");
  return std::move(recording_);
}

}  // namespace

Recording readWav(const fs::path& path) { return WavFile(path).read(); }

}  // namespace examples
