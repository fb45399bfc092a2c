#include <cpuid.h>
#include <immintrin.h>

#include <array>

#include "host/collect_vector.h"
#include "host/finish_vector.h"
#include "host/momentum_vector.h"
#include "host/pass_vector.h"
#include "host/split_vector.h"

namespace sparsecoll::host {

namespace {

// kFront8[mask]: the lanes of an 8-lane vector whose bits are set in mask, moved to the front.
struct alignas(32) Lanes8 {
  uint32_t lane[8];
};
constexpr std::array<Lanes8, 256> frontLanes8() {
  std::array<Lanes8, 256> table{};
  for (uint32_t mask = 0; mask < 256; ++mask) {
    uint32_t next = 0;
    for (uint32_t lane = 0; lane < 8; ++lane)
      if ((mask >> lane & 1u) != 0) table[mask].lane[next++] = lane;
  }
  return table;
}
constexpr auto kFront8 = frontLanes8();

// The same for 4 doubles, as lanes of 32 bits: each double is two of them.
constexpr std::array<Lanes8, 16> frontLanes4() {
  std::array<Lanes8, 16> table{};
  for (uint32_t mask = 0; mask < 16; ++mask) {
    uint32_t next = 0;
    for (uint32_t lane = 0; lane < 4; ++lane)
      if ((mask >> lane & 1u) != 0) {
        table[mask].lane[next++] = 2 * lane;
        table[mask].lane[next++] = 2 * lane + 1;
      }
  }
  return table;
}
constexpr auto kFront4 = frontLanes4();

__m256i lanesAt(const Lanes8& row) { return _mm256_load_si256(reinterpret_cast<const __m256i*>(row.lane)); }

struct Marks {
  static uint64_t takeMarks(uint8_t* marks) { return takeHalf(marks) | uint64_t{takeHalf(marks + 32)} << 32; }

 private:
  static uint32_t takeHalf(uint8_t* marks) {
    auto* const half = reinterpret_cast<__m256i*>(marks);
    const __m256i bytes = _mm256_loadu_si256(half);
    _mm256_storeu_si256(half, _mm256_setzero_si256());
    return static_cast<uint32_t>(_mm256_movemask_epi8(_mm256_cmpgt_epi8(bytes, _mm256_setzero_si256())));
  }
};

// Sums of squares in kSquareLanes lanes, held in registers as far as there are any. add(j, x): x is a block's j-th
// vector.
struct Squares {
  static constexpr uint64_t kVectors = kSquareLanes / 4;
  __m256d sums[kVectors];
  explicit Squares(const double* lanes) {
    for (uint64_t v = 0; v < kVectors; ++v) sums[v] = _mm256_loadu_pd(lanes + 4 * v);
  }
  void store(double* lanes) const {
    for (uint64_t v = 0; v < kVectors; ++v) _mm256_storeu_pd(lanes + 4 * v, sums[v]);
  }
  void add(uint64_t j, __m256 x) {
    square(2 * j, _mm256_cvtps_pd(_mm256_castps256_ps128(x)));
    square(2 * j + 1, _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1)));
  }
  void add(uint64_t j, __m256d x) { square(j, x); }

 private:
  void square(uint64_t v, __m256d x) { sums[v % kVectors] = _mm256_fmadd_pd(x, x, sums[v % kVectors]); }
};

struct Float8Lanes : Marks {
  using Sums = Squares;
  using A = float;
  using Vector = __m256;
  static constexpr uint64_t kLanes = 8;
  static Vector zero() { return _mm256_setzero_ps(); }
  static Vector broadcast(float x) { return _mm256_set1_ps(x); }
  // Magnitudes are below 2^31, so a signed compare with key - 1 is the unsigned >=; a key of 0 becomes -1.
  static __m256i broadcastKey(uint32_t key) { return _mm256_set1_epi32(static_cast<int>(key - 1)); }
  static Vector load(const float* x) { return _mm256_loadu_ps(x); }
  // 0 in the lanes whose bits are set.
  static Vector loadBut(const float* x, uint32_t zeros) {
    const __m256i lane = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    const __m256i set = _mm256_and_si256(_mm256_set1_epi32(static_cast<int>(zeros)), lane);
    return _mm256_and_ps(load(x), _mm256_castsi256_ps(_mm256_cmpeq_epi32(set, _mm256_setzero_si256())));
  }
  static Vector load(const Half* x) { return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x))); }
  static Vector load(const Bfloat* x) {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(x));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
  }
  static void store(float* to, Vector x) { _mm256_storeu_ps(to, x); }
  static void stream(float* to, Vector x) { _mm256_stream_ps(to, x); }
  static Vector fma(Vector a, Vector b, Vector c) { return _mm256_fmadd_ps(a, b, c); }
  static Vector add(Vector a, Vector b) { return _mm256_add_ps(a, b); }
  static Vector multiply(Vector a, Vector b) { return _mm256_mul_ps(a, b); }
  static Vector divide(Vector a, Vector b) { return _mm256_div_ps(a, b); }
  static Vector canonical(Vector x) {
    return _mm256_blendv_ps(x, _mm256_set1_ps(__builtin_nanf("")), _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
  }
  static uint32_t atLeast(Vector x, __m256i below) {
    const __m256i magnitude = _mm256_and_si256(_mm256_castps_si256(x), _mm256_set1_epi32(0x7fffffff));
    return static_cast<uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpgt_epi32(magnitude, below))));
  }
  static void compress(float* values, uint32_t* indices, Vector x, uint32_t base, uint32_t mask) {
    const __m256i front = lanesAt(kFront8[mask]);
    _mm256_storeu_ps(values, _mm256_permutevar8x32_ps(x, front));
    const __m256i index = _mm256_add_epi32(_mm256_set1_epi32(static_cast<int>(base)), front);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(indices), index);
  }
  static void compressListed(float* values, uint32_t* indices, Vector x, const uint32_t* listed, uint32_t mask) {
    const __m256i front = lanesAt(kFront8[mask]);
    const __m256i index = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(listed));
    _mm256_storeu_ps(values, _mm256_permutevar8x32_ps(x, front));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(indices), _mm256_permutevar8x32_epi32(index, front));
  }
};

struct Double4Lanes : Marks {
  using Sums = Squares;
  using A = double;
  using Vector = __m256d;
  static constexpr uint64_t kLanes = 4;
  static Vector zero() { return _mm256_setzero_pd(); }
  static Vector broadcast(double x) { return _mm256_set1_pd(x); }
  static __m256i broadcastKey(uint64_t key) { return _mm256_set1_epi64x(static_cast<long long>(key - 1)); }
  static Vector load(const double* x) { return _mm256_loadu_pd(x); }
  static Vector loadBut(const double* x, uint32_t zeros) {
    const __m256i lane = _mm256_setr_epi64x(1, 2, 4, 8);
    const __m256i set = _mm256_and_si256(_mm256_set1_epi64x(static_cast<long long>(zeros)), lane);
    return _mm256_and_pd(load(x), _mm256_castsi256_pd(_mm256_cmpeq_epi64(set, _mm256_setzero_si256())));
  }
  static void store(double* to, Vector x) { _mm256_storeu_pd(to, x); }
  static void stream(double* to, Vector x) { _mm256_stream_pd(to, x); }
  static Vector fma(Vector a, Vector b, Vector c) { return _mm256_fmadd_pd(a, b, c); }
  static Vector add(Vector a, Vector b) { return _mm256_add_pd(a, b); }
  static Vector multiply(Vector a, Vector b) { return _mm256_mul_pd(a, b); }
  static Vector divide(Vector a, Vector b) { return _mm256_div_pd(a, b); }
  static Vector canonical(Vector x) {
    return _mm256_blendv_pd(x, _mm256_set1_pd(__builtin_nan("")), _mm256_cmp_pd(x, x, _CMP_UNORD_Q));
  }
  static uint32_t atLeast(Vector x, __m256i below) {
    const __m256i magnitude = _mm256_and_si256(_mm256_castpd_si256(x), _mm256_set1_epi64x(0x7fffffffffffffff));
    return static_cast<uint32_t>(_mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpgt_epi64(magnitude, below))));
  }
  static void compress(double* values, uint32_t* indices, Vector x, uint32_t base, uint32_t mask) {
    const __m256i front = lanesAt(kFront4[mask]);
    const __m256i moved = _mm256_permutevar8x32_epi32(_mm256_castpd_si256(x), front);
    _mm256_storeu_pd(values, _mm256_castsi256_pd(moved));
    const __m128i index = _mm256_castsi256_si128(lanesAt(kFront8[mask]));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(indices), _mm_add_epi32(_mm_set1_epi32(static_cast<int>(base)), index));
  }
  static void compressListed(double* values, uint32_t* indices, Vector x, const uint32_t* listed, uint32_t mask) {
    const __m256i moved = _mm256_permutevar8x32_epi32(_mm256_castpd_si256(x), lanesAt(kFront4[mask]));
    _mm256_storeu_pd(values, _mm256_castsi256_pd(moved));
    const __m256i index = _mm256_castsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(listed)));
    const __m256i front = _mm256_permutevar8x32_epi32(index, lanesAt(kFront8[mask]));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(indices), _mm256_castsi256_si128(front));
  }
};

// Clang does not know this feature by its name.
bool hasHalves() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

bool supported() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && hasHalves() &&
         __builtin_cpu_supports("bmi2");
}

void squareLanesFloat(const float* x, uint64_t rows, double* lanes) {
  __m256d sum[8];
  for (int j = 0; j < 8; ++j) sum[j] = _mm256_loadu_pd(lanes + 4 * j);
  for (uint64_t row = 0; row < rows; ++row)
    for (int j = 0; j < 8; ++j) {
      const __m256d v = _mm256_cvtps_pd(_mm_loadu_ps(x + row * 32 + 4 * static_cast<uint64_t>(j)));
      sum[j] = _mm256_fmadd_pd(v, v, sum[j]);
    }
  for (int j = 0; j < 8; ++j) _mm256_storeu_pd(lanes + 4 * j, sum[j]);
}

void squareLanesDouble(const double* x, uint64_t rows, double* lanes) {
  __m256d sum[8];
  for (int j = 0; j < 8; ++j) sum[j] = _mm256_loadu_pd(lanes + 4 * j);
  for (uint64_t row = 0; row < rows; ++row)
    for (int j = 0; j < 8; ++j) {
      const __m256d v = _mm256_loadu_pd(x + row * 32 + 4 * static_cast<uint64_t>(j));
      sum[j] = _mm256_fmadd_pd(v, v, sum[j]);
    }
  for (int j = 0; j < 8; ++j) _mm256_storeu_pd(lanes + 4 * j, sum[j]);
}

void widen(const Half* from, float* to, uint64_t n) {
  uint64_t i = 0;
  for (; i + 8 <= n; i += 8) _mm256_storeu_ps(to + i, Float8Lanes::load(from + i));
  for (; i < n; ++i) to[i] = toFloat(from[i]);
}

// NaNs take the canonical form of toHalf; the hardware conversion would keep their payload.
void narrow(const float* from, Half* to, uint64_t n) {
  uint64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m256 x = _mm256_loadu_ps(from + i);
    if (_mm256_movemask_ps(_mm256_cmp_ps(x, x, _CMP_UNORD_Q)) != 0) {
      for (uint64_t j = i; j < i + 8; ++j) to[j] = toHalf(from[j]);
      continue;
    }
    const __m128i half = _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), half);
  }
  for (; i < n; ++i) to[i] = toHalf(from[i]);
}

}  // namespace

const Isa kAvx2 = {
    "avx2",
    supported,
    passVector<Float8Lanes, float>,
    passVector<Float8Lanes, Half>,
    passVector<Float8Lanes, Bfloat>,
    passVector<Double4Lanes, double>,
    passSquaresVector<Float8Lanes, float>,
    passSquaresVector<Float8Lanes, Half>,
    passSquaresVector<Float8Lanes, Bfloat>,
    passSquaresVector<Double4Lanes, double>,
    finishVector<Float8Lanes>,
    finishVector<Double4Lanes>,
    denseSumVector<Float8Lanes>,
    denseSumVector<Double4Lanes>,
    squareLanesFloat,
    squareLanesDouble,
    widen,
    narrow,
    momentumVector<Float8Lanes, float>,
    momentumVector<Float8Lanes, Half>,
    momentumVector<Float8Lanes, Bfloat>,
    momentumVector<Double4Lanes, double>,
    collectVector<Float8Lanes>,
    collectVector<Double4Lanes>,
    splitVector<Float8Lanes>,
    splitVector<Double4Lanes>,
    countScalar<uint32_t>,
    countScalar<uint64_t>,
};

}  // namespace sparsecoll::host
