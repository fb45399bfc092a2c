#include "bench/common/npy.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>

#include "bench/common/errors.h"
#include "core/numeric.h"

namespace bench {

namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

[[noreturn]] void fail(const std::string& path, const std::string& what) { throw EnvironmentError(path + ": " + what); }

std::string inQuotes(std::string_view text) { return fmt::format("'{}'", text); }

// What the header says; all of it is somebody else's word until the file's size agrees.
struct Header {
  std::string type;
  std::vector<uint64_t> shape;
};

// The header is the literal of a Python dict: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}.
class HeaderParser {
 public:
  HeaderParser(const std::string& path, std::string_view text) : path_(path), text_(text) {}

  Header parse() {
    expect('{');
    while (!accept('}')) {
      parseEntry(string());
      if (!accept(',') && !isNext('}')) bad("',' or '}' expected");
    }
    skipSpace();
    if (!text_.empty()) bad("something follows the closing brace");
    if (!hasType_ || !hasOrder_ || !hasShape_) bad("it needs the keys descr, fortran_order and shape");
    return header_;
  }

 private:
  void parseEntry(std::string_view key) {
    expect(':');
    if (key == "descr") {
      once(hasType_, key);
      if (isNext('[')) fail(path_, "the type is a structure of fields; there are <f2, <f4, <f8");
      header_.type = string();
    } else if (key == "fortran_order") {
      once(hasOrder_, key);
      if (!acceptWord("True") && !acceptWord("False")) bad("fortran_order is True or False");
    } else if (key == "shape") {
      once(hasShape_, key);
      parseShape();
    } else {
      bad("nobody knows the key " + inQuotes(key));
    }
  }

  void parseShape() {
    expect('(');
    while (!accept(')')) {
      header_.shape.push_back(number());
      if (!accept(',') && !isNext(')')) bad("',' or ')' expected in the shape");
    }
  }

  std::string_view string() {
    skipSpace();
    const char quote = text_.empty() ? '\0' : text_.front();
    const size_t end = quote == '\'' || quote == '"' ? text_.find(quote, 1) : text_.npos;
    if (end == text_.npos) bad("a string in quotes expected");
    const std::string_view content = text_.substr(1, end - 1);
    text_.remove_prefix(end + 1);
    return content;
  }

  uint64_t number() {
    skipSpace();
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), value);
    if (error == std::errc::result_out_of_range) fail(path_, "the shape overflows");
    if (error != std::errc()) bad("a number of 0 or more expected in the shape");
    text_.remove_prefix(static_cast<size_t>(end - text_.data()));
    return value;
  }

  void skipSpace() { text_.remove_prefix(std::min(text_.find_first_not_of(" \t\n"), text_.size())); }
  bool isNext(char c) {
    skipSpace();
    return text_.starts_with(c);
  }
  bool accept(char c) {
    if (!isNext(c)) return false;
    text_.remove_prefix(1);
    return true;
  }
  bool acceptWord(std::string_view word) {
    skipSpace();
    if (!text_.starts_with(word)) return false;
    text_.remove_prefix(word.size());
    return true;
  }
  void expect(char c) {
    if (!accept(c)) bad(inQuotes({&c, 1}) + " expected");
  }
  void once(bool& seen, std::string_view key) {
    if (seen) bad("the key " + inQuotes(key) + " is there twice");
    seen = true;
  }
  [[noreturn]] void bad(const std::string& what) { fail(path_, "the header is broken: " + what); }

  const std::string& path_;
  std::string_view text_;
  Header header_;
  bool hasType_ = false, hasOrder_ = false, hasShape_ = false;
};

// Little-endian, as the machines are that this library runs on.
template <class T, float (*kConvert)(T)>
void readEntries(std::istream& stream, std::vector<float>& entries) {
  constexpr uint64_t kChunk = 65536;
  std::vector<T> chunk(std::min<uint64_t>(kChunk, entries.size()));
  for (uint64_t at = 0; at < entries.size() && stream; at += chunk.size()) {
    chunk.resize(std::min<uint64_t>(kChunk, entries.size() - at));
    stream.read(reinterpret_cast<char*>(chunk.data()), static_cast<std::streamsize>(chunk.size() * sizeof(T)));
    std::transform(chunk.begin(), chunk.end(), entries.begin() + static_cast<std::ptrdiff_t>(at), kConvert);
  }
}

struct Type {
  std::string_view name;
  uint64_t bytes;
  void (*read)(std::istream& stream, std::vector<float>& entries);
};
constexpr Type kTypes[] = {
    {"<f2", 2, readEntries<sparsecoll::Half, [](sparsecoll::Half x) { return sparsecoll::toFloat(x); }>},
    {"<f4", 4, readEntries<float, [](float x) { return x; }>},
    {"<f8", 8, readEntries<double, [](double x) { return static_cast<float>(x); }>},
};

const Type& typeOf(const std::string& path, const std::string& name) {
  for (const Type& type : kTypes)
    if (name == type.name) return type;
  if (name.find('O') != name.npos) fail(path, "an array of Python objects, which are not read");
  fail(path, "the type is " + inQuotes(name) + "; there are <f2, <f4, <f8");
}

// Nothing if it overflows.
std::optional<uint64_t> bytesOf(const Header& header, const Type& type) {
  if (std::find(header.shape.begin(), header.shape.end(), 0u) != header.shape.end()) return 0;
  uint64_t bytes = type.bytes;
  for (const uint64_t length : header.shape)
    if (__builtin_mul_overflow(bytes, length, &bytes)) return std::nullopt;
  return bytes;
}

class File {
 public:
  explicit File(const std::string& path) : path_(path), stream_(path, std::ios::binary) {
    std::error_code error;
    left_ = std::filesystem::file_size(path, error);
    if (error || !stream_) fail(path, "cannot be opened");
  }

  std::vector<float> read() {
    const Header header = readHeader();
    const Type& type = typeOf(path_, header.type);
    const std::optional<uint64_t> bytes = bytesOf(header, type);
    if (!bytes) fail(path_, "the shape overflows");
    if (*bytes != left_)
      fail(path_, fmt::format("{}: {} bytes of data where the shape asks for {}",
                              *bytes > left_ ? "truncated" : "too long", left_, *bytes));
    std::vector<float> entries(*bytes / type.bytes);
    type.read(stream_, entries);
    if (!stream_) fail(path_, "cannot be read");
    return entries;
  }

 private:
  // Magic, version (2 bytes), length of the text (2 bytes, from version 2.0 on 4), text.
  Header readHeader() {
    if (left_ < kMagic.size() || take(kMagic.size()) != kMagic) fail(path_, "not a .npy file: it begins otherwise");
    const std::string version = take(2);
    if (version[0] < 1 || version[0] > 3 || version[1] != 0)
      fail(path_, fmt::format("format version {}.{}; there are 1.0, 2.0, 3.0", static_cast<uint8_t>(version[0]),
                              static_cast<uint8_t>(version[1])));
    uint32_t length = 0;
    const std::string lengthBytes = take(version[0] == 1 ? 2 : 4);
    std::memcpy(&length, lengthBytes.data(), lengthBytes.size());
    const std::string text = take(length);
    return HeaderParser(path_, text).parse();
  }

  std::string take(uint64_t bytes) {
    if (bytes > left_) fail(path_, "truncated: it ends within the header");
    left_ -= bytes;
    std::string text(bytes, '\0');
    if (!stream_.read(text.data(), static_cast<std::streamsize>(bytes))) fail(path_, "cannot be read");
    return text;
  }

  const std::string& path_;
  std::ifstream stream_;
  uint64_t left_ = 0;  // bytes of the file that have not been read
};

}  // namespace

bool isNpy(const std::string& path) {
  if (std::filesystem::path(path).extension() == ".npy") return true;
  std::string beginning(kMagic.size(), '\0');
  return std::ifstream(path, std::ios::binary).read(beginning.data(), kMagic.size()) && beginning == kMagic;
}

std::vector<float> readNpy(const std::string& path) { return File(path).read(); }

}  // namespace bench
