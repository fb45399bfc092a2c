#include <immintrin.h>

#include "host/collect_vector.h"
#include "host/finish_vector.h"
#include "host/momentum_vector.h"
#include "host/pass_vector.h"
#include "host/split_vector.h"

namespace sparsecoll::host {

namespace {

// A mask as a number. Where it is left to GCC 12 to widen masks, it may spill 16 bits of one and read 32 of them back
// (seen with -O1 -fsanitize=thread).
inline uint32_t bitsOf(__mmask16 mask) {
  uint32_t bits = 0;
  __asm__("kmovw %1, %0" : "=r"(bits) : "k"(mask));
  return bits;
}

struct Marks {
  static uint64_t takeMarks(uint8_t* marks) {
    const __m512i bytes = _mm512_loadu_si512(marks);
    _mm512_storeu_si512(marks, _mm512_setzero_si512());
    return _mm512_test_epi8_mask(bytes, bytes);
  }
};

// Sums of squares in kSquareLanes lanes, held in registers. add(j, x): x is a block's j-th vector.
struct Squares {
  static constexpr uint64_t kVectors = kSquareLanes / 8;
  __m512d sums[kVectors];
  explicit Squares(const double* lanes) {
    for (uint64_t v = 0; v < kVectors; ++v) sums[v] = _mm512_loadu_pd(lanes + 8 * v);
  }
  void store(double* lanes) const {
    for (uint64_t v = 0; v < kVectors; ++v) _mm512_storeu_pd(lanes + 8 * v, sums[v]);
  }
  void add(uint64_t j, __m512 x) {
    square(2 * j, _mm512_cvtps_pd(_mm512_castps512_ps256(x)));
    square(2 * j + 1, _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1)));
  }
  void add(uint64_t j, __m512d x) { square(j, x); }

 private:
  void square(uint64_t v, __m512d x) { sums[v % kVectors] = _mm512_fmadd_pd(x, x, sums[v % kVectors]); }
};

struct Float16Lanes : Marks {
  using Sums = Squares;
  using A = float;
  using Vector = __m512;
  static constexpr uint64_t kLanes = 16;
  static Vector zero() { return _mm512_setzero_ps(); }
  static Vector broadcast(float x) { return _mm512_set1_ps(x); }
  static __m512i broadcastKey(uint32_t key) { return _mm512_set1_epi32(static_cast<int>(key)); }
  static Vector load(const float* x) { return _mm512_loadu_ps(x); }
  // 0 in the lanes whose bits are set.
  static Vector loadBut(const float* x, uint32_t zeros) {
    return _mm512_maskz_loadu_ps(static_cast<__mmask16>(~zeros), x);
  }
  static Vector load(const Half* x) { return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(x))); }
  static Vector load(const Bfloat* x) {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x));
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
  }
  static void store(float* to, Vector x) { _mm512_storeu_ps(to, x); }
  static void stream(float* to, Vector x) { _mm512_stream_ps(to, x); }
  static Vector fma(Vector a, Vector b, Vector c) { return _mm512_fmadd_ps(a, b, c); }
  static Vector add(Vector a, Vector b) { return _mm512_add_ps(a, b); }
  static Vector multiply(Vector a, Vector b) { return _mm512_mul_ps(a, b); }
  static Vector divide(Vector a, Vector b) { return _mm512_div_ps(a, b); }
  static Vector canonical(Vector x) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), x, _mm512_set1_ps(__builtin_nanf("")));
  }
  static uint32_t atLeast(Vector x, __m512i key) {
    const __m512i magnitude = _mm512_and_epi32(_mm512_castps_si512(x), _mm512_set1_epi32(0x7fffffff));
    return bitsOf(_mm512_cmpge_epu32_mask(magnitude, key));
  }
  static void compress(float* values, uint32_t* indices, Vector x, uint32_t base, uint32_t mask) {
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i index = _mm512_add_epi32(_mm512_set1_epi32(static_cast<int>(base)), lane);
    const auto m = static_cast<__mmask16>(mask);
    _mm512_storeu_ps(values, _mm512_maskz_compress_ps(m, x));
    _mm512_storeu_si512(indices, _mm512_maskz_compress_epi32(m, index));
  }
  static void compressListed(float* values, uint32_t* indices, Vector x, const uint32_t* listed, uint32_t mask) {
    const auto m = static_cast<__mmask16>(mask);
    const __m512i index = _mm512_loadu_si512(listed);
    _mm512_storeu_ps(values, _mm512_maskz_compress_ps(m, x));
    _mm512_storeu_si512(indices, _mm512_maskz_compress_epi32(m, index));
  }
};

struct Double8Lanes : Marks {
  using Sums = Squares;
  using A = double;
  using Vector = __m512d;
  static constexpr uint64_t kLanes = 8;
  static Vector zero() { return _mm512_setzero_pd(); }
  static Vector broadcast(double x) { return _mm512_set1_pd(x); }
  static __m512i broadcastKey(uint64_t key) { return _mm512_set1_epi64(static_cast<long long>(key)); }
  static Vector load(const double* x) { return _mm512_loadu_pd(x); }
  static Vector loadBut(const double* x, uint32_t zeros) {
    return _mm512_maskz_loadu_pd(static_cast<__mmask8>(~zeros), x);
  }
  static void store(double* to, Vector x) { _mm512_storeu_pd(to, x); }
  static void stream(double* to, Vector x) { _mm512_stream_pd(to, x); }
  static Vector fma(Vector a, Vector b, Vector c) { return _mm512_fmadd_pd(a, b, c); }
  static Vector add(Vector a, Vector b) { return _mm512_add_pd(a, b); }
  static Vector multiply(Vector a, Vector b) { return _mm512_mul_pd(a, b); }
  static Vector divide(Vector a, Vector b) { return _mm512_div_pd(a, b); }
  static Vector canonical(Vector x) {
    return _mm512_mask_blend_pd(_mm512_cmp_pd_mask(x, x, _CMP_UNORD_Q), x, _mm512_set1_pd(__builtin_nan("")));
  }
  static uint32_t atLeast(Vector x, __m512i key) {
    const __m512i magnitude = _mm512_and_epi64(_mm512_castpd_si512(x), _mm512_set1_epi64(0x7fffffffffffffff));
    return bitsOf(_mm512_cmpge_epu64_mask(magnitude, key));
  }
  static void compress(double* values, uint32_t* indices, Vector x, uint32_t base, uint32_t mask) {
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256i index = _mm256_add_epi32(_mm256_set1_epi32(static_cast<int>(base)), lane);
    const auto m = static_cast<__mmask8>(mask);
    _mm512_storeu_pd(values, _mm512_maskz_compress_pd(m, x));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(indices), _mm256_maskz_compress_epi32(m, index));
  }
  static void compressListed(double* values, uint32_t* indices, Vector x, const uint32_t* listed, uint32_t mask) {
    const auto m = static_cast<__mmask8>(mask);
    const __m256i index = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(listed));
    _mm512_storeu_pd(values, _mm512_maskz_compress_pd(m, x));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(indices), _mm256_maskz_compress_epi32(m, index));
  }
};

bool supported() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("fma");
}

void squareLanesFloat(const float* x, uint64_t rows, double* lanes) {
  __m512d sum[4];
  for (int j = 0; j < 4; ++j) sum[j] = _mm512_loadu_pd(lanes + 8 * j);
  for (uint64_t row = 0; row < rows; ++row)
    for (int j = 0; j < 4; ++j) {
      const __m512d v = _mm512_cvtps_pd(_mm256_loadu_ps(x + row * 32 + 8 * static_cast<uint64_t>(j)));
      sum[j] = _mm512_fmadd_pd(v, v, sum[j]);
    }
  for (int j = 0; j < 4; ++j) _mm512_storeu_pd(lanes + 8 * j, sum[j]);
}

void squareLanesDouble(const double* x, uint64_t rows, double* lanes) {
  __m512d sum[4];
  for (int j = 0; j < 4; ++j) sum[j] = _mm512_loadu_pd(lanes + 8 * j);
  for (uint64_t row = 0; row < rows; ++row)
    for (int j = 0; j < 4; ++j) {
      const __m512d v = _mm512_loadu_pd(x + row * 32 + 8 * static_cast<uint64_t>(j));
      sum[j] = _mm512_fmadd_pd(v, v, sum[j]);
    }
  for (int j = 0; j < 4; ++j) _mm512_storeu_pd(lanes + 8 * j, sum[j]);
}

void widen(const Half* from, float* to, uint64_t n) {
  uint64_t i = 0;
  for (; i + 16 <= n; i += 16) _mm512_storeu_ps(to + i, Float16Lanes::load(from + i));
  for (; i < n; ++i) to[i] = toFloat(from[i]);
}

// The hardware conversion keeps a NaN's payload; toHalf makes it canonical, so NaNs are blended in.
void narrow(const float* from, Half* to, uint64_t n) {
  uint64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const __m512 x = _mm512_loadu_ps(from + i);
    const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    const __m256i half = _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    const __m256i sign = _mm256_and_si256(half, _mm256_set1_epi16(static_cast<short>(0x8000)));
    const __m256i canonical = _mm256_or_si256(sign, _mm256_set1_epi16(0x7e00));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i), _mm256_mask_blend_epi16(nan, half, canonical));
  }
  for (; i < n; ++i) to[i] = toHalf(from[i]);
}

}  // namespace

const Isa kAvx512 = {
    "avx512",
    supported,
    passVector<Float16Lanes, float>,
    passVector<Float16Lanes, Half>,
    passVector<Float16Lanes, Bfloat>,
    passVector<Double8Lanes, double>,
    passSquaresVector<Float16Lanes, float>,
    passSquaresVector<Float16Lanes, Half>,
    passSquaresVector<Float16Lanes, Bfloat>,
    passSquaresVector<Double8Lanes, double>,
    finishVector<Float16Lanes>,
    finishVector<Double8Lanes>,
    denseSumVector<Float16Lanes>,
    denseSumVector<Double8Lanes>,
    squareLanesFloat,
    squareLanesDouble,
    widen,
    narrow,
    momentumVector<Float16Lanes, float>,
    momentumVector<Float16Lanes, Half>,
    momentumVector<Float16Lanes, Bfloat>,
    momentumVector<Double8Lanes, double>,
    collectVector<Float16Lanes>,
    collectVector<Double8Lanes>,
    splitVector<Float16Lanes>,
    splitVector<Double8Lanes>,
    countScalar<uint32_t>,
    countScalar<uint64_t>,
};

}  // namespace sparsecoll::host
