// The version that programs print which measure or train.
#pragma once

#include <cstdio>
#include <string>

#include "sparsecoll/sparsecoll.h"

namespace bench {

// "sparsecoll-perf 0.1.0", the version being the library's.
inline std::string versionText(const std::string& program) {
  const int code = sparsecollGetVersion();
  char numbers[64];
  std::snprintf(numbers, sizeof numbers, " %d.%d.%d", code / 10000, code / 100 % 100, code % 100);
  return program + numbers;
}

}  // namespace bench
