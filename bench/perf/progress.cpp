#include "bench/perf/progress.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>

namespace bench {

namespace {
constexpr const char* kEraseLine = "\r\x1b[K";
}

Progress::Progress(bool shows) : shows_(shows && isatty(STDERR_FILENO) == 1) {}

void Progress::show(size_t done, size_t all, const std::string& what) {
  if (!shows_) return;
  fmt::print(stderr, "{}{} of {}: {}", kEraseLine, done + 1, all, what);
  std::fflush(stderr);
  shown_ = true;
}

void Progress::clear() {
  if (shown_) std::fputs(kEraseLine, stderr);
  shown_ = false;
}

}  // namespace bench
