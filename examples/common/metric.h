// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace examples {

/// A figure of merit on the test data.
struct Metric {
  std::string name;  // "test accuracy"
  double value;
  bool percent;  // value is a share, shown times 100
};

}  // namespace examples
