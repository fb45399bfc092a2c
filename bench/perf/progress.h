// What is being measured, on a terminal, in one line that goes away.
#pragma once

#include <cstddef>
#include <string>

namespace bench {

class Progress {
 public:
  // shows: whether this process reports. Only a terminal gets anything.
  explicit Progress(bool shows);
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(size_t done, size_t all, const std::string& what);
  void clear();

 private:
  bool shows_;
  bool shown_ = false;
};

}  // namespace bench
