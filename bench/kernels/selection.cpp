// The accumulate pass and what finds the largest entries.
#include <cmath>
#include <functional>
#include <map>

#include "bench/common/loops.h"
#include "bench/kernels/benchmarks.h"
#include "bench/kernels/samples.h"

namespace bench {

namespace {

// The fused pass in a state that never changes. From r = -g/2 on, r + g is g/2 and then r - g is -g/2, both without
// rounding: with the scale's sign flipped in every step the same entries pass a fixed key, and nothing is to be
// restored.
class StationaryPass {
 public:
  StationaryPass(const Data& data, double density)
      : n_(data.n()), r_(n_ * sizeof(float)), window_(n_, halved(data.keyOf(density)), room(density)) {
    for (uint64_t i = 0; i < n_; ++i) r_.as<float>()[i] = data.gradient(0)[i] * -0.5f;
    args_ = window_.passOver(n_);
    args_.gradient = data.gradient(0);
    args_.in = args_.out = r_.as<>();
  }

  void run() {
    hostKernels().pass(args_, {});
    args_.scale = -args_.scale.value;
  }
  double candidatesPerElement() const { return static_cast<double>(window_.found()) / static_cast<double>(n_); }

 private:
  static uint32_t halved(uint32_t key) {
    return sparsecoll::Magnitude<float>::of(sparsecoll::Magnitude<float>::value(key) / 2);
  }
  uint64_t room(double density) const { return sparsecoll::entriesOf(density, n_) + 1024; }

  uint64_t n_;
  Memory r_;
  OneWindow window_;
  sparsecoll::PassArgs args_;
};

double bestFusedPassSeconds(uint64_t n, double density) {
  static std::map<std::pair<uint64_t, double>, double> known;
  const auto [entry, isNew] = known.try_emplace({n, density});
  if (isNew) {
    StationaryPass pass(Data::of(n), density);
    entry->second = bestSecondsOf(runsFor(n), [&] { pass.run(); });
  }
  return entry->second;
}

}  // namespace

void benchInplaceAdd(benchmark::State& state, uint64_t n) {
  const Data& data = Data::of(n);
  const Samples samples(state, [&] { inplaceAdd(data.scratch(), data.gradient(0), n); });
  countBytes(state, samples, data, 12 * static_cast<double>(n));
}

void benchRead(benchmark::State& state, uint64_t n) {
  const Data& data = Data::of(n);
  const Samples samples(state, [&] { benchmark::DoNotOptimize(readAll(data.gradient(0), n)); });
  countReadBytes(state, samples, data, 4 * static_cast<double>(n));
}

void benchFusedPass(benchmark::State& state, uint64_t n, double density) {
  const Data& data = Data::of(n);
  StationaryPass pass(data, density);
  const Samples samples(state, [&] { pass.run(); });
  countBytes(state, samples, data, 12 * static_cast<double>(n));
  state.counters["candidates_per_element"] = pass.candidatesPerElement();
}

void benchExactTopK(benchmark::State& state, uint64_t n, double density) {
  const double passSeconds = bestFusedPassSeconds(n, density);
  Data& data = Data::of(n);
  TopKLoop& loop = data.topK(density);
  uint64_t fallbacks = 0;
  uint64_t candidates = 0;
  uint64_t steps = 0;
  const Samples samples(state, [&] {
    loop.step();
    fallbacks += loop.fallbacks();
    candidates += loop.candidates();
    ++steps;
  });
  countBytes(state, samples, data, 12 * static_cast<double>(n));
  state.counters["fallbacks"] = static_cast<double>(fallbacks);
  state.counters["candidates_per_k"] = static_cast<double>(candidates) / static_cast<double>(steps * loop.k());
  state.counters["ratio_to_fused_pass"] = samples.best() / passSeconds;
}

// Without error feedback the gradient is what is selected from: nothing is written but the candidates.
void benchThresholdSelect(benchmark::State& state, uint64_t n, double density) {
  const Data& data = Data::of(n);
  OneWindow window(n, data.keyOf(density), sparsecoll::entriesOf(density, n) + 1024);
  sparsecoll::PassArgs args = window.passOver(n);
  args.gradient = data.gradient(0);
  const Samples samples(state, [&] { hostKernels().pass(args, {}); });
  countReadBytes(state, samples, data, 4 * static_cast<double>(n));
  state.counters["candidates_per_element"] = static_cast<double>(window.found()) / static_cast<double>(n);
}

// What anybody would do first: only the k-th magnitude, found in a copy, since the vector must stay as it is.
void benchNthElement(benchmark::State& state, uint64_t n, double density) {
  Data& data = Data::of(n);
  const float* const acc = data.topK(density).acc();
  const auto k = static_cast<std::ptrdiff_t>(sparsecoll::entriesOf(density, n));
  const Samples samples(state, [&] {
    float* const magnitudes = data.scratch();
    std::transform(acc, acc + n, magnitudes, [](float x) { return std::abs(x); });
    std::nth_element(magnitudes, magnitudes + k - 1, magnitudes + n, std::greater<>());
    benchmark::DoNotOptimize(magnitudes[k - 1]);
  });
  countReadBytes(state, samples, data, 4 * static_cast<double>(n));
}

}  // namespace bench
