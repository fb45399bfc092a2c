// The times of a benchmark's iterations, and the counters made of them.
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "bench/common/clock.h"
#include "bench/kernels/data.h"

namespace bench {

class Samples {
 public:
  // Runs the whole benchmark: work is what is timed.
  template <class Work>
  Samples(benchmark::State& state, const Work& work) {
    for (auto _ : state) seconds_.push_back(secondsOf(work));
    std::sort(seconds_.begin(), seconds_.end());
    state.counters["median_us"] = seconds_[seconds_.size() / 2] * 1e6;
    state.counters["best_us"] = best() * 1e6;
  }

  // Bandwidths are those of the fastest iteration, as in STREAM and as for the loops that they are compared with.
  double best() const { return seconds_.front(); }

 private:
  std::vector<double> seconds_;
};

inline void countBytes(benchmark::State& state, const Samples& samples, const Data& data, double bytes) {
  const double rate = bytes / samples.best();
  state.SetBytesProcessed(static_cast<int64_t>(bytes * static_cast<double>(state.iterations())));
  state.counters["GBps"] = rate * 1e-9;
  state.counters["of_inplace_add"] = rate / data.addBytesPerSecond();
}

// For kernels that only read.
inline void countReadBytes(benchmark::State& state, const Samples& samples, const Data& data, double bytes) {
  countBytes(state, samples, data, bytes);
  state.counters["of_read"] = bytes / samples.best() / data.readBytesPerSecond();
}

}  // namespace bench
