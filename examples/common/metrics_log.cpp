// SPDX-License-Identifier: Apache-2.0
#include "examples/common/metrics_log.h"

#include <algorithm>
#include <stdexcept>

namespace examples {

size_t metricInterval(size_t wish, size_t steps) {
  return std::max({size_t{1}, wish, (steps + kMetricLines - 1) / kMetricLines});
}

MetricsLog::MetricsLog(const std::string& path, bool append) : path_(path) {
  if (path.empty()) return;
  stream_.open(path, append ? std::ios::app : std::ios::trunc);
  if (!stream_) throw std::runtime_error("cannot write " + path);
}

void MetricsLog::write(const nlohmann::ordered_json& line) {
  if (!isOpen()) return;
  stream_ << line.dump() << '\n';
  if (!stream_.flush()) throw std::runtime_error("cannot write " + path_);
}

}  // namespace examples
