// Statistics with the same bits everywhere: a tile's elements go to 32 lanes in turn, lanes add up in a fixed tree,
// tiles add up in order. No result depends on the vector width.
#include "host/statistics.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <type_traits>
#include <utility>

#include "core/prefetch.h"
#include "core/random.h"
#include "core/tile_sum.h"
#include "host/deferred_zeros.h"
#include "host/momentum.h"
#include "host/store.h"

namespace sparsecoll::host {

namespace {

template <class T>
class Sampler {
  using A = typename Element<T>::Accumulate;

 public:
  Sampler(const PassArgs& args, uint32_t* counts, const Isa& isa)
      : args_(args),
        isa_(isa),
        gradient_(static_cast<const T*>(args.gradient)),
        in_(static_cast<const A*>(args.in)),
        scale_(static_cast<A>(args.scale.now())),
        counts_(counts) {}

  // One run out of every `stride` of them, which one is left to chance: equal distances could fall in with a pattern of
  // the vector.
  void count(uint64_t begin, uint64_t end, uint64_t stride, uint64_t seed) {
    constexpr uint64_t kRunsAhead = 8;  // runs that are on their way from memory
    const uint64_t step = stride * kSampleRun;
    const auto ask = [&](uint64_t at) {
      if (at >= end) return end;
      const uint64_t run = at + drawBelow(stride, seed + at) * kSampleRun;
      if (run < end) prefetch(run);
      return run;
    };
    uint64_t asked[kRunsAhead];
    for (uint64_t r = 0; r < kRunsAhead; ++r) asked[r] = ask(begin + r * step);
    uint64_t next = 0;
    for (uint64_t at = begin; at < end; at += step) {
      const uint64_t run = asked[next];
      asked[next] = ask(at + kRunsAhead * step);
      next = (next + 1) % kRunsAhead;
      if (run + kSampleRun <= end)
        count(run, std::integral_constant<uint64_t, kSampleRun>{});
      else if (run < end)
        count(run, end - run);
    }
  }
  // Ends it. How many were counted.
  uint64_t total() {
    constexpr uint32_t kNaN = binOf(std::bit_cast<float>(0x7fc00000u));
    for (uint32_t bin = kNaN + 1; bin < kHistogramBins; ++bin) counts_[kNaN] += std::exchange(counts_[bin], 0);
    return counted_;
  }

 private:
  // Sums are quiet NaN where they are NaN, but machines differ in its other bits: total counts them as the canonical one.
  // To look for NaN at each of them took a seventh of a step.
  static constexpr uint32_t binOf(float x) { return Magnitude<float>::of(x) >> 18; }

  // A run that begins inside a line ends in one more. Always inlined for the reason that askFor is.
  [[gnu::always_inline]] void prefetch(uint64_t run) const {
    for (uint64_t i = 0; i < kSampleRun + kLine - 1; i += kLine) {
      const uint64_t element = run + std::min(i, kSampleRun - 1);
      askFor(gradient_ + element);
      if (in_ != nullptr) askFor(in_ + element);
    }
  }

  // Length: a constant where the run is whole, so that its loops are straight lines.
  template <class Length>
  void count(uint64_t at, Length length) {
    A acc[kSampleRun];
    accumulate(at, length, acc);
    uint32_t* const counts = counts_;
    for (uint64_t i = 0; i < length; ++i) ++counts[binOf(static_cast<float>(acc[i]))];
    counted_ += length;
  }

  template <class Length>
  void accumulate(uint64_t at, Length length, A* acc) const {
    if (!args_.momentum.none()) {
      A velocity[kSampleRun];  // only the pass moves the velocity itself
      momentumFor<T>(isa_)(momentumSpan<T>(args_, at, length, acc, velocity));
      return;
    }
    if (in_ != nullptr)
      std::copy_n(in_ + at, length, acc);
    else
      std::fill_n(acc, length, A{0});
    if (args_.deferredZeros != nullptr)
      for (uint64_t bits = deferredFrom(args_.deferredZeros, at) & kRunMask; bits != 0; bits &= bits - 1)
        acc[__builtin_ctzll(bits)] = 0;
    // 1 * x + y rounds once either way; without fused multiply-adds in the instruction set only the sum is quick.
    if (scale_ == 1) {
      for (uint64_t i = 0; i < length; ++i) acc[i] = Element<T>::load(gradient_[at + i]) + acc[i];
    } else {
      for (uint64_t i = 0; i < length; ++i)
        acc[i] = fusedMultiplyAdd(scale_, static_cast<A>(Element<T>::load(gradient_[at + i])), acc[i]);
    }
  }

  static constexpr uint64_t kLine = 64 / sizeof(A);  // elements, of narrower gradients more
  static_assert(kSampleRun < 64);
  static constexpr uint64_t kRunMask = (uint64_t{1} << kSampleRun) - 1;

  const PassArgs& args_;
  const Isa& isa_;
  const T* gradient_;
  const A* in_;
  A scale_;
  uint32_t* counts_;
  uint64_t counted_ = 0;
};

}  // namespace

double foldLanes(double* lanes) {
  for (uint64_t half = kSquareLanes / 2; half != 0; half /= 2)
    std::transform(lanes, lanes + half, lanes + half, lanes, std::plus<>());
  return lanes[0];
}

template <class A>
void squareLanes(const A* x, uint64_t n, double* lanes, const Isa& isa) {
  const uint64_t rows = n / kSquareLanes;
  if constexpr (std::is_same_v<A, double>)
    isa.squareLanesDouble(x, rows, lanes);
  else
    isa.squareLanesFloat(x, rows, lanes);
  for (uint64_t i = rows * kSquareLanes; i < n; ++i) {
    const auto v = static_cast<double>(x[i]);
    lanes[i % kSquareLanes] = fusedMultiplyAdd(v, v, lanes[i % kSquareLanes]);
  }
}

template void squareLanes(const float* x, uint64_t n, double* lanes, const Isa& isa);
template void squareLanes(const double* x, uint64_t n, double* lanes, const Isa& isa);

template <class A>
static double tileSquares(const A* x, uint64_t n, const Isa& isa) {
  double lanes[kSquareLanes] = {};
  squareLanes(x, n, lanes, isa);
  return foldLanes(lanes);
}

void sample(const PassArgs& args, const Isa& isa) {
  Control& control = *args.control;
  std::fill_n(control.histogram, kHistogramBins, 0u);
  uint64_t length = 0;
  for (uint32_t w = 0; w < control.windowCount; ++w) length += control.windows[w].end - control.windows[w].begin;
  const uint64_t stride = std::max<uint64_t>(1, length / kSampleElements);
  const uint64_t seed = mixBits(control.iteration);
  control.sampled = withElement(args.gradientType, [&]<class T>(T) {
    Sampler<T> sampler(args, control.histogram, isa);
    for (uint32_t w = 0; w < control.windowCount; ++w)
      sampler.count(control.windows[w].begin, control.windows[w].end, stride, seed);
    return sampler.total();
  });
}

void segmentSquares(const void* x, sparsecollDataType_t type, std::span<const uint64_t> bounds, double* squares,
                    const Isa& isa) {
  withElement(type, [&]<class T>(T) {
    using A = typename Element<T>::Accumulate;
    alignas(64) A wide[kTile];
    for (size_t s = 0; s + 1 < bounds.size(); ++s) {
      TileSum sum;
      for (uint64_t at = bounds[s]; at < bounds[s + 1]; at += kTile) {
        const uint64_t length = std::min(kTile, bounds[s + 1] - at);
        const T* const from = static_cast<const T*>(x) + at;
        if constexpr (std::is_same_v<T, A>) {
          sum.add(tileSquares(from, length, isa));
        } else {
          loadElements(from, wide, length, isa);
          sum.add(tileSquares(wide, length, isa));
        }
      }
      squares[s] = sum.sum();
    }
  });
}

}  // namespace sparsecoll::host
