// A number of every step: its mean, its least and its most.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>

namespace bench {

struct Course {
  double sum = 0, least = std::numeric_limits<double>::infinity(), most = 0;
  uint64_t count = 0;

  void add(double value) {
    sum += value;
    least = std::min(least, value);
    most = std::max(most, value);
    ++count;
  }
  double mean() const { return sum / static_cast<double>(count); }
  // Mean (least-most).
  std::string text() const {
    char line[64];
    std::snprintf(line, sizeof line, "%.2f (%.2f-%.2f)", mean(), least, most);
    return line;
  }
};

}  // namespace bench
