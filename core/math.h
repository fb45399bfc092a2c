// Elementary functions whose results decide what travels: the same bits on every machine, host or device. Correct to a
// few units in the last place; built from fused multiply-adds, no libm.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

#include "core/numeric.h"

namespace sparsecoll {

namespace detail {
inline constexpr double kLn2High = 0x1.62e42fefa0000p-1;
inline constexpr double kLn2Low = 0x1.cf79abc9e3b39p-40;
inline constexpr double kInvLn2 = 0x1.71547652b82fep+0;
inline constexpr double kSqrt2 = 0x1.6a09e667f3bcdp+0;
inline constexpr double kInvSqrt2Pi = 0.39894228040143267794;
inline constexpr double kLnSqrt2Pi = 0.91893853320467274178;
}  // namespace detail

// What std::max and std::clamp do, which take references: device code has none to a constant of a namespace.
inline SC_BOTH double largerOf(double a, double b) { return a < b ? b : a; }
inline SC_BOTH double clamped(double x, double least, double most) { return x < least ? least : most < x ? most : x; }

// ln x for finite x > 0; -inf for 0. ln x = e ln 2 + 2 atanh((m - 1) / (m + 1)), m in [1/sqrt 2, sqrt 2).
inline SC_BOTH double lnOf(double x) {
  if (x == 0) return -std::numeric_limits<double>::infinity();
  int exponent = 0;
  if (x < std::numeric_limits<double>::min()) {
    x *= 0x1p54;
    exponent = -54;
  }
  const auto bits = std::bit_cast<uint64_t>(x);
  exponent += static_cast<int>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0xfffffffffffffu) | 0x3ff0000000000000u);
  if (m >= detail::kSqrt2) {
    m *= 0.5;
    ++exponent;
  }
  const double z = (m - 1) / (m + 1);
  const double w = z * z;
  double series = 0;
  for (int odd = 23; odd >= 3; odd -= 2) series = fusedMultiplyAdd(series, w, 1.0 / odd);
  const double e = exponent;
  return fusedMultiplyAdd(e, detail::kLn2High,
                          fusedMultiplyAdd(2 * z, fusedMultiplyAdd(series, w, 1.0), e * detail::kLn2Low));
}

// e^x; 0 below -745, infinity above 709.
inline SC_BOTH double expOf(double x) {
  if (x != x) return x;
  if (x > 709.7) return std::numeric_limits<double>::infinity();
  if (x < -745) return 0;
  const double scaled = x * detail::kInvLn2;
  const auto whole = static_cast<int>(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
  const double r = fusedMultiplyAdd(-whole, detail::kLn2Low, fusedMultiplyAdd(-whole, detail::kLn2High, x));
  double sum = 1;
  for (int i = 13; i >= 1; --i) sum = fusedMultiplyAdd(sum, r / i, 1.0);
  const auto powerOfTwo = [](int e) { return std::bit_cast<double>(static_cast<uint64_t>(e + 1023) << 52); };
  return whole < -1000 ? sum * powerOfTwo(whole + 600) * 0x1p-600 : sum * powerOfTwo(whole - 1) * 2;
}

// x^y for x > 0.
inline SC_BOTH double powOf(double x, double y) { return expOf(y * lnOf(x)); }

// ln Gamma(x) for x > 0 (Lanczos's approximation with g = 7).
inline SC_BOTH double lnGamma(double x) {
  constexpr double kFactors[] = {0.99999999999980993,  676.5203681218851,     -1259.1392167224028,
                                 771.32342877765313,   -176.61502916214059,   12.507343278686905,
                                 -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7};
  double sum = kFactors[0];
  for (int i = 1; i < 9; ++i) sum += kFactors[i] / (x + i);  // of Gamma(x + 1)
  const double t = x + 7.5;
  return fusedMultiplyAdd(x + 0.5, lnOf(t), detail::kLnSqrt2Pi - t) + lnOf(sum) - lnOf(x);
}

namespace detail {
// Probability that a gamma variable of this shape exceeds x: the power series of its complement below shape + 1, the
// continued fraction (Lentz's method) above.
inline SC_BOTH double gammaTail(double shape, double x) {
  constexpr int kMostTerms = 400;
  constexpr double kSmall = 1e-16;
  const double front = expOf(shape * lnOf(x) - x - lnGamma(shape));
  if (x < shape + 1) {
    double term = 1 / shape;
    double sum = term;
    for (int i = 1; i < kMostTerms && term > kSmall * sum; ++i) sum += term *= x / (shape + i);
    return 1 - front * sum;
  }
  double b = x + 1 - shape;
  double c = 1 / std::numeric_limits<double>::min();
  double d = 1 / b;
  double fraction = d;
  for (int i = 1; i < kMostTerms; ++i) {
    const double a = -i * (i - shape);
    b += 2;
    d = 1 / (a * d + b);
    c = b + a / c;
    fraction *= c * d;
    if (c * d - 1 < kSmall && c * d - 1 > -kSmall) break;
  }
  return front * fraction;
}
}  // namespace detail

// The x that a gamma distribution of this shape and scale 1 exceeds with probability tail in (0, 1).
inline SC_BOTH double gammaQuantile(double shape, double tail) {
  double low = -700;
  double high = 7;  // of ln x
  while (detail::gammaTail(shape, expOf(high)) > tail) high += 1;
  for (int i = 0; i < 60; ++i) {
    const double middle = 0.5 * (low + high);
    (detail::gammaTail(shape, expOf(middle)) > tail ? low : high) = middle;
  }
  return expOf(0.5 * (low + high));
}

// The z >= 0 that a standard normal variable exceeds with probability tail in (0, 1/2].
inline SC_BOTH double normalQuantile(double tail) {
  double z = 0;
  // Half of a gamma variable's tail of shape 1/2 is the normal one; Newton's steps from 0 grow towards the root.
  for (int i = 0; i < 60; ++i) {
    const double above = z == 0 ? 0.5 : 0.5 * detail::gammaTail(0.5, 0.5 * z * z);
    const double step = (above - tail) / (detail::kInvSqrt2Pi * expOf(-0.5 * z * z));
    z += step;
    if (step < 1e-14 * (1 + z)) break;
  }
  return z;
}

}  // namespace sparsecoll
