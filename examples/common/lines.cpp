// SPDX-License-Identifier: Apache-2.0
#include "examples/common/lines.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <fstream>
#include <stdexcept>

#ifdef EXAMPLES_WITH_ZLIB
#include <zlib.h>
#endif

namespace examples {

namespace fs = std::filesystem;

namespace {

constexpr size_t kChunk = 1 << 16;

[[noreturn]] void failAt(const fs::path& path, const std::string& what) {
  throw std::runtime_error(path.string() + ": " + what);
}

}  // namespace

#ifdef EXAMPLES_WITH_ZLIB

// gzread passes through what is not packed.
class PackedFile {
 public:
  explicit PackedFile(const fs::path& place) : path_(place), file_(gzopen(place.c_str(), "rb")) {
    if (file_ == nullptr) failAt(path_, "cannot be read");
  }
  ~PackedFile() { gzclose(file_); }
  PackedFile(const PackedFile&) = delete;
  PackedFile& operator=(const PackedFile&) = delete;

  size_t read(char* out, size_t count) {
    const int got = gzread(file_, out, static_cast<unsigned>(count));
    int code = Z_OK;
    const char* message = gzerror(file_, &code);
    // Z_BUF_ERROR stands for an end in the middle of the packed data.
    if (code == Z_BUF_ERROR) failAt(path_, "truncated: the packed data has no end");
    if (got < 0 || (code != Z_OK && code != Z_STREAM_END)) failAt(path_, std::string("damaged: ") + message);
    return static_cast<size_t>(got);
  }

 private:
  const fs::path& path_;
  gzFile file_;
};

#else

class PackedFile {
 public:
  explicit PackedFile(const fs::path& place) : path_(place), file_(place, std::ios::binary) {
    if (!file_) failAt(path_, "cannot be read");
    if (file_.get() == 0x1f && file_.get() == 0x8b) failAt(path_, "packed by gzip, and this build has no zlib");
    file_.clear();
    file_.seekg(0);
  }

  size_t read(char* out, size_t count) {
    file_.read(out, static_cast<std::streamsize>(count));
    if (file_.bad()) failAt(path_, "cannot be read");
    return static_cast<size_t>(file_.gcount());
  }

 private:
  const fs::path& path_;
  std::ifstream file_;
};

#endif

LineReader::LineReader(const fs::path& path) : path_(path) {
  if (!fs::is_regular_file(path_)) failAt(path_, "no such file");
  source_ = std::make_unique<PackedFile>(path_);
  if (!fill()) failAt(path_, "the file is empty");
}

LineReader::~LineReader() = default;

// Appends a chunk to what is left; false at the end of the file.
bool LineReader::fill() {
  if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  if (buffer_.size() < end_ + kChunk) buffer_.resize(2 * (end_ + kChunk));
  const size_t got = source_->read(buffer_.data() + end_, kChunk);
  if (std::memchr(buffer_.data() + end_, 0, got) != nullptr) {
    throw std::runtime_error(path_.string() + ": behind line " + std::to_string(number_) +
                             ": a zero byte, so this is no text");
  }
  end_ += got;
  return got > 0;
}

bool LineReader::next(std::string_view& line) {
  size_t searched = 0;
  for (;;) {
    const char* first = buffer_.data() + begin_;
    const auto* stop = static_cast<const char*>(std::memchr(first + searched, '\n', end_ - begin_ - searched));
    if (stop != nullptr) {
      ++number_;
      line = {first, static_cast<size_t>(stop - first)};
      begin_ += line.size() + 1;
      if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
      return true;
    }
    searched = end_ - begin_;
    if (fill()) continue;
    if (searched == 0) return false;
    ++number_;
    fail("truncated: the line has no end");
  }
}

void LineReader::fail(const std::string& what) const {
  throw std::runtime_error(path_.string() + ": line " + std::to_string(number_) + ": " + what);
}

std::string readText(const fs::path& path) {
  if (!fs::is_regular_file(path)) failAt(path, "no such file");
  std::ifstream file(path, std::ios::binary);
  std::string text(static_cast<size_t>(fs::file_size(path)), '\0');
  if (!file.read(text.data(), static_cast<std::streamsize>(text.size()))) failAt(path, "cannot be read");
  if (text.empty()) failAt(path, "the file is empty");
  if (text.find('\0') != std::string::npos) failAt(path, "a zero byte, so this is no text");
  return text;
}

std::string readPacked(const fs::path& path) {
  if (!fs::is_regular_file(path)) failAt(path, "no such file");
  PackedFile file(path);
  std::string content;
  for (size_t got = kChunk; got > 0; content.resize(content.size() - kChunk + got)) {
    content.resize(content.size() + kChunk);
    got = file.read(content.data() + content.size() - kChunk, kChunk);
  }
  if (content.empty()) failAt(path, "the file is empty");
  return content;
}

int64_t parseNumber(std::string_view text, int64_t limit) {
  int64_t value = -1;
  const char* last = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), last, value);
  return error == std::errc() && stop == last && value >= 0 && value <= limit ? value : -1;
}

}  // namespace examples
