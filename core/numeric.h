// Element types, their conversions and the order of magnitudes. Host and device share this arithmetic, so it uses
// of libm only the square root, which is rounded correctly everywhere.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "core/portable.h"
#include "sparsecoll/sparsecoll.h"

namespace sparsecoll {

struct Half {
  uint16_t bits;
};
struct Bfloat {
  uint16_t bits;
};

constexpr uint64_t elementBytes(sparsecollDataType_t type) {
  switch (type) {
    case sparsecollFloat64:
      return 8;
    case sparsecollFloat32:
      return 4;
    default:
      return 2;
  }
}

constexpr bool isElementType(int32_t type) { return type >= sparsecollFloat16 && type <= sparsecollBfloat16; }

// The type sums and residuals are kept in.
constexpr sparsecollDataType_t accumulateTypeOf(sparsecollDataType_t type) {
  return type == sparsecollFloat64 ? sparsecollFloat64 : sparsecollFloat32;
}

SC_HD inline float quietNaN(float) { return std::bit_cast<float>(0x7fc00000u); }
SC_HD inline double quietNaN(double) { return std::bit_cast<double>(uint64_t{0x7ff8000000000000u}); }

// Machines differ in the NaN that an operation leaves.
template <class A>
SC_HD inline A canonical(A x) {
  return x == x ? x : quietNaN(A{});
}

SC_HD inline float toFloat(Bfloat x) { return std::bit_cast<float>(uint32_t{x.bits} << 16); }

SC_HD inline float toFloat(Half x) {
  const uint32_t sign = (x.bits & 0x8000u) << 16;
  const uint32_t exponent = (x.bits >> 10) & 0x1fu;
  const uint32_t mantissa = x.bits & 0x3ffu;
  if (exponent == 0x1f)  // a signalling NaN comes out quiet, as the hardware conversion does it
    return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13) | (mantissa != 0 ? 0x400000u : 0u));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
}

// Round to nearest even; NaN becomes the canonical quiet NaN of its sign.
SC_HD inline Bfloat toBfloat(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>(((bits >> 16) & 0x8000u) | 0x7fc0u)};
  return {static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

SC_HD inline Half toHalf(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return {static_cast<uint16_t>(sign | 0x7e00u)};
  if (magnitude >= 0x477ff000u) return {static_cast<uint16_t>(sign | 0x7c00u)};  // 65520 and above round to Inf
  if (magnitude < 0x38800000u) {  // subnormal or zero: adding 0.5 lets the adder round at 2^-24
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return {static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(0.5f)))};
  }
  const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return {static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13))};
}

// What a gradient element and an accumulate type need to know about each other.
template <class T>
struct Element;

template <>
struct Element<float> {
  static constexpr sparsecollDataType_t kType = sparsecollFloat32;
  using Accumulate = float;
  SC_HD static float load(float x) { return x; }
  SC_HD static float store(float x) { return x; }
};
template <>
struct Element<double> {
  static constexpr sparsecollDataType_t kType = sparsecollFloat64;
  using Accumulate = double;
  SC_HD static double load(double x) { return x; }
  SC_HD static double store(double x) { return x; }
};
template <>
struct Element<Half> {
  static constexpr sparsecollDataType_t kType = sparsecollFloat16;
  using Accumulate = float;
  SC_HD static float load(Half x) { return toFloat(x); }
  SC_HD static Half store(float x) { return toHalf(x); }
};
template <>
struct Element<Bfloat> {
  static constexpr sparsecollDataType_t kType = sparsecollBfloat16;
  using Accumulate = float;
  SC_HD static float load(Bfloat x) { return toFloat(x); }
  SC_HD static Bfloat store(float x) { return toBfloat(x); }
};

// Magnitudes compare as unsigned integers: +0 equals -0, NaN > Inf > finite (docs/algorithms, "Order").
template <class A>
struct Magnitude;

template <>
struct Magnitude<float> {
  using Key = uint32_t;
  static constexpr Key kInfinity = 0x7f800000u;
  SC_HD static constexpr Key of(float x) { return std::bit_cast<uint32_t>(x) & 0x7fffffffu; }
  SC_HD static float value(Key key) { return std::bit_cast<float>(key); }
};
template <>
struct Magnitude<double> {
  using Key = uint64_t;
  static constexpr Key kInfinity = 0x7ff0000000000000u;
  SC_HD static Key of(double x) { return std::bit_cast<uint64_t>(x) & 0x7fffffffffffffffu; }
  SC_HD static double value(Key key) { return std::bit_cast<double>(key); }
};

// Binary digits of x; 0 for 0. std::bit_width is another number on devices (see core/search.h).
SC_HD inline uint32_t bitWidth(uint64_t x) {
#if defined(__CUDA_ARCH__)
  return 64 - static_cast<uint32_t>(__clzll(static_cast<long long>(x)));
#else
  return static_cast<uint32_t>(std::bit_width(x));
#endif
}

// One rounding, on every machine.
SC_HD inline float fusedMultiplyAdd(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
SC_HD inline double fusedMultiplyAdd(double a, double b, double c) { return __builtin_fma(a, b, c); }

template <class A>
SC_HD inline bool isFinite(A x) {
  return Magnitude<A>::of(x) < Magnitude<A>::kInfinity;
}

// Key of an infinity: above that of every finite number.
SC_HD inline uint64_t infinityKey(bool isDouble) {
  return isDouble ? Magnitude<double>::kInfinity : Magnitude<float>::kInfinity;
}

// Rounds a non-negative threshold to the key that `|acc| >= threshold` compares with. For float the smallest float not
// below the threshold is taken, so that no entry under it passes.
SC_HD inline uint64_t keyOfThreshold(double threshold, bool isDouble) {
  if (isDouble) return Magnitude<double>::of(threshold);
  const auto nearest = static_cast<float>(threshold);
  const uint32_t key = Magnitude<float>::of(nearest);
  return static_cast<double>(nearest) < threshold ? uint64_t{key} + 1 : uint64_t{key};
}

SC_HD inline double thresholdOfKey(uint64_t key, bool isDouble) {
  return isDouble ? Magnitude<double>::value(key)
                  : static_cast<double>(Magnitude<float>::value(static_cast<uint32_t>(key)));
}

// The scale of a gradient, made smaller where the gradient's norm would be above mostNorm. squares: of the gradient as
// it is.
SC_HD inline double clippedScale(double squares, double scale, double mostNorm) {
  const double norm = std::sqrt(squares) * std::abs(scale);
  return scale * (isFinite(norm) && norm > mostNorm ? mostNorm / norm : 1);
}

// Calls f with a value-initialised element of the named type.
template <class F>
decltype(auto) withElement(sparsecollDataType_t type, F&& f) {
  switch (type) {
    case sparsecollFloat16:
      return f(Half{});
    case sparsecollBfloat16:
      return f(Bfloat{});
    case sparsecollFloat64:
      return f(double{});
    default:
      return f(float{});
  }
}

template <class F>
decltype(auto) withAccumulate(sparsecollDataType_t type, F&& f) {
  return type == sparsecollFloat64 ? f(double{}) : f(float{});
}

}  // namespace sparsecoll
