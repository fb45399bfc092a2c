// SPDX-License-Identifier: Apache-2.0
// Text files line by line, and files that gzip has packed, with errors that name the place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace examples {

class PackedFile;

/// Reads a text file, also one that gzip has packed, line by line. A file must hold at least one line, no zero byte,
/// and end with the end of a line: what a download that broke off leaves behind fails one of these, or gzip's own
/// checks. Errors of all members: std::runtime_error "FILE: line N: what".
class LineReader {
 public:
  explicit LineReader(const std::filesystem::path& path);
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  /// The next line without its end ("\n" or "\r\n"), or false behind the last one. The text lives until the next call.
  bool next(std::string_view& line);

  /// Of the latest line, from 1.
  size_t number() const { return number_; }

  [[noreturn]] void fail(const std::string& what) const;

 private:
  bool fill();

  std::filesystem::path path_;
  std::unique_ptr<PackedFile> source_;
  std::vector<char> buffer_;
  size_t begin_ = 0;  // of what next() has not returned yet
  size_t end_ = 0;
  size_t number_ = 0;
};

/// The whole of a text file. Errors: std::runtime_error with the file's name; an empty file is one.
std::string readText(const std::filesystem::path& path);

/// The whole of a file of any bytes, also one that gzip has packed. Errors: as above.
std::string readPacked(const std::filesystem::path& path);

/// A decimal number that fills text, at most limit; -1 for anything else.
int64_t parseNumber(std::string_view text, int64_t limit);

}  // namespace examples
