#pragma once

#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <string>

namespace bench {

inline uint64_t nowNs() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(since).count());
}

// What the calling thread has computed so far: waits, and turns of others on its core, do not count.
inline uint64_t cpuNs() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

template <class Work>
double secondsOf(const Work& work) {
  const uint64_t start = nowNs();
  work();
  return static_cast<double>(nowNs() - start) * 1e-9;
}

// What else runs on the machine only ever adds time, so the shortest run is the one that says most about the work.
template <class Work>
double bestSecondsOf(int runs, const Work& work) {
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < runs; ++i) best = std::min(best, secondsOf(work));
  return best;
}

// The date and time of now, as 2026-01-31T23:59:59Z.
inline std::string dateText() {
  const time_t now = time(nullptr);
  tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  return {text, strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

}  // namespace bench
