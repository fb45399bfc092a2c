// Statistics with the same bits everywhere: a tile's elements go to 32 lanes in turn, lanes add up in a fixed tree,
// tiles add up in order. No result depends on the vector width.
#include "host/statistics.h"

#include <algorithm>

#include "host/store.h"

namespace sparsecoll::host {

namespace {

constexpr uint64_t kLanes = 32;

template <class A>
double tileSquares(const A* x, uint64_t n, const Isa& isa) {
  double lanes[kLanes] = {};
  const uint64_t rows = n / kLanes;
  if constexpr (std::is_same_v<A, double>)
    isa.squareLanesDouble(x, rows, lanes);
  else
    isa.squareLanesFloat(x, rows, lanes);
  for (uint64_t i = rows * kLanes; i < n; ++i) {
    const auto v = static_cast<double>(x[i]);
    lanes[i % kLanes] = fusedMultiplyAdd(v, v, lanes[i % kLanes]);
  }
  for (uint64_t half = kLanes / 2; half != 0; half /= 2)
    for (uint64_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  return lanes[0];
}

}  // namespace

void histogram(const void* x, sparsecollDataType_t type, uint64_t n, uint64_t floorKey, uint64_t* counts) {
  withElement(type, [&]<class T>(T) {
    using A = typename Element<T>::Accumulate;
    const auto* in = static_cast<const T*>(x);
    for (uint64_t i = 0; i < n; ++i) {
      const A value = Element<T>::load(in[i]);
      if (Magnitude<A>::of(value) < floorKey) continue;
      ++counts[Magnitude<float>::of(static_cast<float>(value)) >> 18];
    }
  });
}

void segmentSquares(const void* x, sparsecollDataType_t type, std::span<const uint64_t> bounds, double* squares,
                    const Isa& isa) {
  withElement(type, [&]<class T>(T) {
    using A = typename Element<T>::Accumulate;
    alignas(64) A wide[kTile];
    for (size_t s = 0; s + 1 < bounds.size(); ++s) {
      double sum = 0;
      for (uint64_t at = bounds[s]; at < bounds[s + 1]; at += kTile) {
        const uint64_t length = std::min(kTile, bounds[s + 1] - at);
        const T* const from = static_cast<const T*>(x) + at;
        if constexpr (std::is_same_v<T, A>) {
          sum += tileSquares(from, length, isa);
        } else {
          loadElements(from, wide, length, isa);
          sum += tileSquares(wide, length, isa);
        }
      }
      squares[s] = sum;
    }
  });
}

}  // namespace sparsecoll::host
