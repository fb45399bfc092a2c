// Data for unit tests: the same on every run, and rich in the values that break kernels.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <new>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "core/numeric.h"

namespace sparsecoll::test {

using Random = std::mt19937_64;

inline uint64_t below(Random& random, uint64_t bound) { return random() % bound; }
inline double uniform(Random& random) { return static_cast<double>(random() >> 11) * 0x1p-53; }

// Two-sided exponential: tails like those of gradients.
inline double laplace(Random& random) {
  const double magnitude = -std::log(1 - uniform(random));
  return (random() & 1) != 0 ? magnitude : -magnitude;
}

template <class T>
using BitsOf = std::conditional_t<sizeof(T) == 2, uint16_t, std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>;

template <class T>
BitsOf<T> bitsOf(T x) {
  return std::bit_cast<BitsOf<T>>(x);
}

template <class T>
bool sameBits(const T& a, const T& b) {
  return bitsOf(a) == bitsOf(b);
}

// "" where all bits agree, otherwise the first place where they do not.
template <class T>
std::string difference(const T* got, const T* expected, uint64_t n) {
  for (uint64_t i = 0; i < n; ++i)
    if (!sameBits(got[i], expected[i]))
      return fmt::format("element {} of {} is {:#x}, expected {:#x}", i, n, bitsOf(got[i]), bitsOf(expected[i]));
  return "";
}

template <class T>
std::string difference(const std::vector<T>& got, const std::vector<T>& expected) {
  if (got.size() != expected.size()) return fmt::format("{} elements, expected {}", got.size(), expected.size());
  return difference(got.data(), expected.data(), got.size());
}

// Zeros, subnormals, extremes, infinities and NaNs (canonical, with a payload, signalling) of both signs.
template <class A>
A hostile(Random& random) {
  using Limits = std::numeric_limits<A>;
  const A quiet = Limits::quiet_NaN();
  const A values[] = {A{0},
                      Limits::denorm_min(),
                      Limits::min() - Limits::denorm_min(),
                      Limits::min(),
                      Limits::max(),
                      Limits::infinity(),
                      quiet,
                      std::bit_cast<A>(static_cast<BitsOf<A>>(bitsOf(quiet) | 0x1234u)),
                      std::bit_cast<A>(static_cast<BitsOf<A>>(bitsOf(Limits::infinity()) | 0x55u))};
  const A value = values[below(random, std::size(values))];
  const BitsOf<A> sign = (random() & 1) != 0 ? BitsOf<A>{1} << (sizeof(A) * 8 - 1) : BitsOf<A>{0};
  return std::bit_cast<A>(static_cast<BitsOf<A>>(bitsOf(value) | sign));
}

enum class Fill {
  kSmooth,     // all different
  kTies,       // few magnitudes, both signs
  kEqual,      // one magnitude, both signs
  kZero,       // zeros of both signs
  kRange,      // every exponent there is
  kTight,      // a narrow band and a few outliers far above it
  kOutlier,    // one magnitude, and one entry far above it
  kSubnormal,  // nothing but subnormals
  kHostile,    // smooth, every eighth entry hostile
};
inline constexpr Fill kFills[] = {Fill::kSmooth, Fill::kTies,      Fill::kEqual,   Fill::kZero,   Fill::kRange,
                                  Fill::kTight,  Fill::kSubnormal, Fill::kOutlier, Fill::kHostile};

template <class A>
A filled(Fill fill, uint64_t i, Random& random) {
  const A sign = (random() & 1) != 0 ? A{1} : A{-1};
  switch (fill) {
    case Fill::kSmooth:
      return static_cast<A>(laplace(random));
    case Fill::kTies:
      return sign * static_cast<A>(1 + below(random, 4));
    case Fill::kEqual:
      return sign * A{0.375};
    case Fill::kZero:
      return sign * A{0};
    case Fill::kRange: {
      const auto magnitude = static_cast<BitsOf<A>>(below(random, Magnitude<A>::kInfinity));
      return sign * std::bit_cast<A>(magnitude);
    }
    case Fill::kTight:
      if (i % 1000 == 999) return sign * static_cast<A>(1e30);
      return sign * (A{1} + static_cast<A>(below(random, 20000)) * std::numeric_limits<A>::epsilon());
    case Fill::kOutlier:
      return i == 7 ? A{-1e30F} : sign * A{0.375};
    case Fill::kSubnormal:
      return sign * static_cast<A>(below(random, 5000)) * std::numeric_limits<A>::denorm_min();
    default:
      return i % 8 == 3 ? hostile<A>(random) : static_cast<A>(laplace(random));
  }
}

template <class A>
std::vector<A> makeVector(Fill fill, uint64_t n, uint64_t seed) {
  Random random(seed);
  std::vector<A> values(n);
  for (uint64_t i = 0; i < n; ++i) values[i] = filled<A>(fill, i, random);
  return values;
}

// The same values as elements of type T, rounded; Half and Bfloat get hostile bits of their own.
template <class T>
std::vector<T> makeElements(Fill fill, uint64_t n, uint64_t seed) {
  using A = typename Element<T>::Accumulate;
  const std::vector<A> wide = makeVector<A>(fill, n, seed);
  std::vector<T> values(n);
  for (uint64_t i = 0; i < n; ++i) values[i] = Element<T>::store(wide[i]);
  if constexpr (sizeof(T) == 2) {
    Random random(seed ^ 0xabcdef);
    if (fill == Fill::kHostile)
      for (uint64_t i = 3; i < n; i += 8) values[i].bits = static_cast<uint16_t>(random());
  }
  return values;
}

// Memory at a cache line's boundary, where kernels may stream.
template <class T>
struct LineAllocator {
  using value_type = T;
  LineAllocator() = default;
  template <class U>
  LineAllocator(const LineAllocator<U>&) {}
  T* allocate(size_t n) { return static_cast<T*>(::operator new (n * sizeof(T), std::align_val_t{64})); }
  void deallocate(T* memory, size_t) { ::operator delete (memory, std::align_val_t{64}); }
  bool operator==(const LineAllocator&) const { return true; }
};

// n elements inside a run of marks. What writes before or behind them is found out.
template <class T>
class Guarded {
 public:
  // shift: elements off a boundary of 64 bytes.
  explicit Guarded(uint64_t n, uint64_t shift = 0) : n_(n), front_(kMarks + shift), all_(n + 2 * kMarks + shift) {
    std::memset(static_cast<void*>(all_.data()), kMark, all_.size() * sizeof(T));
  }

  T* data() { return all_.data() + front_; }
  T& operator[](uint64_t i) { return data()[i]; }
  uint64_t size() const { return n_; }
  std::vector<T> values() const { return {inside(), inside() + n_}; }
  void fill(const std::vector<T>& values) { std::copy(values.begin(), values.end(), data()); }

  // No mark outside has changed.
  bool intact() const { return marked(all_.data(), front_) && marked(inside() + n_, all_.size() - front_ - n_); }
  bool untouched() const { return marked(all_.data(), all_.size()); }

 private:
  static constexpr uint64_t kMarks = 64;  // a multiple of 64 bytes
  static constexpr unsigned char kMark = 0xa5;
  const T* inside() const { return all_.data() + front_; }
  static bool marked(const T* from, uint64_t count) {
    const auto* const bytes = reinterpret_cast<const unsigned char*>(from);
    return std::all_of(bytes, bytes + count * sizeof(T), [](unsigned char byte) { return byte == kMark; });
  }

  uint64_t n_;
  uint64_t front_;
  std::vector<T, LineAllocator<T>> all_;
};

}  // namespace sparsecoll::test
