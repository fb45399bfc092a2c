// Integer and floating-point intrinsics that need nobody else.
#pragma once

#include <bit>
#include <chrono>
#include <cmath>
#include <cstdint>

inline int __popc(unsigned x) { return std::popcount(x); }
inline int __popcll(unsigned long long x) { return std::popcount(x); }
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
inline int __clzll(long long x) { return std::countl_zero(static_cast<unsigned long long>(x)); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }

inline unsigned long long __brevll(unsigned long long x) {
  x = ((x >> 1) & 0x5555555555555555u) | ((x & 0x5555555555555555u) << 1);
  x = ((x >> 2) & 0x3333333333333333u) | ((x & 0x3333333333333333u) << 2);
  x = ((x >> 4) & 0x0f0f0f0f0f0f0f0fu) | ((x & 0x0f0f0f0f0f0f0f0fu) << 4);
  return __builtin_bswap64(x);
}
inline unsigned __brev(unsigned x) { return static_cast<unsigned>(__brevll(x) >> 32); }

inline unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned>((static_cast<uint64_t>(a) * b) >> 32); }
inline int __mulhi(int a, int b) { return static_cast<int>((static_cast<int64_t>(a) * b) >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<unsigned long long>((static_cast<Wide>(a) * b) >> 64);
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>((((static_cast<uint64_t>(high) << 32) | low) << (shift & 31)) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>(((static_cast<uint64_t>(high) << 32) | low) >> (shift & 31));
}
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  const uint64_t bytes = (static_cast<uint64_t>(b) << 32) | a;
  unsigned result = 0;
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned pick = selector >> (4 * i);
    unsigned byte = static_cast<unsigned>(bytes >> (8 * (pick & 7))) & 0xffu;
    if (pick & 8) byte = byte & 0x80u ? 0xffu : 0;
    result |= byte << (8 * i);
  }
  return result;
}

inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline long long __double_as_longlong(double x) { return std::bit_cast<long long>(x); }
inline double __longlong_as_double(long long x) { return std::bit_cast<double>(x); }
inline int __double2hiint(double x) { return static_cast<int>(std::bit_cast<long long>(x) >> 32); }
inline int __double2loint(double x) { return static_cast<int>(std::bit_cast<long long>(x)); }

namespace simt {

// NaN as a device's arithmetic leaves it: of floats always the same one, of doubles an operand's, quiet. Which
// operand's is not said; here it is the last, as the host's is mostly the first.
template <class... Operands>
float withDeviceNaN(float x, Operands...) {
  return x == x ? x : std::bit_cast<float>(0x7fffffffu);
}
template <class... Operands>
double withDeviceNaN(double x, Operands... operands) {
  if (x == x) return x;
  uint64_t nan = 0xfff8000000000000u;
  ((nan = operands == operands ? nan : std::bit_cast<uint64_t>(operands) | 0x0008000000000000u), ...);
  return std::bit_cast<double>(nan);
}

}  // namespace simt

inline float __fmaf_rn(float a, float b, float c) { return simt::withDeviceNaN(__builtin_fmaf(a, b, c), a, b, c); }
inline double __fma_rn(double a, double b, double c) { return simt::withDeviceNaN(__builtin_fma(a, b, c), a, b, c); }
inline float __fadd_rn(float a, float b) { return simt::withDeviceNaN(a + b, a, b); }
inline float __fsub_rn(float a, float b) { return simt::withDeviceNaN(a - b, a, b); }
inline float __fmul_rn(float a, float b) { return simt::withDeviceNaN(a * b, a, b); }
inline float __fdiv_rn(float a, float b) { return simt::withDeviceNaN(a / b, a, b); }
inline float __fsqrt_rn(float a) { return simt::withDeviceNaN(std::sqrt(a), a); }
inline float __frcp_rn(float a) { return simt::withDeviceNaN(1.0f / a, a); }
inline double __dadd_rn(double a, double b) { return simt::withDeviceNaN(a + b, a, b); }
inline double __dsub_rn(double a, double b) { return simt::withDeviceNaN(a - b, a, b); }
inline double __dmul_rn(double a, double b) { return simt::withDeviceNaN(a * b, a, b); }
inline double __ddiv_rn(double a, double b) { return simt::withDeviceNaN(a / b, a, b); }
inline double __dsqrt_rn(double a) { return simt::withDeviceNaN(std::sqrt(a), a); }
inline float __uint2float_rn(unsigned x) { return static_cast<float>(x); }
inline float __int2float_rn(int x) { return static_cast<float>(x); }
inline float __ull2float_rn(unsigned long long x) { return static_cast<float>(x); }
inline double __ull2double_rn(unsigned long long x) { return static_cast<double>(x); }
inline float __double2float_rn(double x) { return simt::withDeviceNaN(static_cast<float>(x)); }

// What is compiled for a device has its multiply-add; operators have the host's, which nothing can change.
#define __builtin_fmaf(a, b, c) __fmaf_rn(a, b, c)
#define __builtin_fma(a, b, c) __fma_rn(a, b, c)

// In namespace std these take references to one type; CUDA's take values of arithmetic types.
#define SIMT_EXTREMES(T)                                     \
  inline constexpr T min(T a, T b) { return b < a ? b : a; } \
  inline constexpr T max(T a, T b) { return a < b ? b : a; }
SIMT_EXTREMES(int)
SIMT_EXTREMES(unsigned)
SIMT_EXTREMES(long)
SIMT_EXTREMES(unsigned long)
SIMT_EXTREMES(long long)
SIMT_EXTREMES(unsigned long long)
#undef SIMT_EXTREMES
inline float min(float a, float b) { return std::fmin(a, b); }
inline float max(float a, float b) { return std::fmax(a, b); }
inline double min(double a, double b) { return std::fmin(a, b); }
inline double max(double a, double b) { return std::fmax(a, b); }

inline long long clock64() { return std::chrono::steady_clock::now().time_since_epoch().count(); }
