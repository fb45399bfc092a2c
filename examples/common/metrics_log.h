// SPDX-License-Identifier: Apache-2.0
// The file of --metrics: one JSON object a line, few enough lines to read into anything.
#pragma once

#include <cstddef>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

namespace examples {

/// Most lines of steps that one training writes; larger intervals are taken where that needs it.
inline constexpr size_t kMetricLines = 500;

/// The interval between lines of a training of so many steps. wish: 0 for the smallest one.
size_t metricInterval(size_t wish, size_t steps);

class MetricsLog {
 public:
  /// An empty path: every call does nothing. append: goes on with what is there. Errors: std::runtime_error.
  MetricsLog(const std::string& path, bool append);

  bool isOpen() const { return stream_.is_open(); }
  void write(const nlohmann::ordered_json& line);

 private:
  std::string path_;
  std::ofstream stream_;
};

}  // namespace examples
