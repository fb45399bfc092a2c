// A file of results: whole or not at all.
#pragma once

#include <string>
#include <string_view>

namespace bench {

// Results go to a file beside the one that was asked for, and take its name once they are safe on the disk. So a run
// that fails or is killed leaves the file of an earlier run as it was.
class OutputFile {
 public:
  // Before what takes long, so that a path that cannot be written is told at once. An empty path: nothing is written.
  // Throws EnvironmentError, with the path and the reason, as write does.
  explicit OutputFile(std::string path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  bool wanted() const { return !path_.empty(); }
  // Once.
  void write(std::string_view text);

 private:
  [[noreturn]] void fail(const char* what);

  std::string path_;
  std::string part_;
  int file_ = -1;
};

}  // namespace bench
