#include "bench/common/loops.h"

#include <bit>

// The programs are compiled for the baseline; a roofline must not be lower than the machine's because of that.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define BENCH_WIDEST [[gnu::target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")]]
#else
#define BENCH_WIDEST
#endif

namespace bench {

namespace {

constexpr uint64_t kBlock = 128;  // elements: wide enough for the compiler to keep eight vectors in flight
constexpr uint64_t kAheadBytes = 8192;

// Reaching past the end of a vector is harmless.
inline void fetchAhead(const float* block) {
  const auto* const ahead = reinterpret_cast<const char*>(block) + kAheadBytes;
  for (uint64_t at = 0; at < kBlock * sizeof(float); at += 64) __builtin_prefetch(ahead + at);
}

inline uint32_t lastWords(const uint32_t (&lanes)[kBlock], const float* x, uint64_t n) {
  uint32_t all = 0;
  for (const uint32_t lane : lanes) all |= lane;
  for (uint64_t i = 0; i < n; ++i) all |= std::bit_cast<uint32_t>(x[i]);
  return all;
}

}  // namespace

BENCH_WIDEST void inplaceAdd(float* __restrict r, const float* __restrict g, uint64_t n) {
  for (uint64_t i = 0; i < n; ++i) r[i] += g[i];
}

BENCH_WIDEST void inplaceAddInQuarters(float* __restrict r, const float* __restrict g, uint64_t n) {
  const uint64_t quarter = n / 4 / kBlock * kBlock;
  for (uint64_t at = 0; at < quarter; at += kBlock)
    for (uint64_t q = 0; q < 4; ++q)
      for (uint64_t i = 0; i < kBlock; ++i) r[q * quarter + at + i] += g[q * quarter + at + i];
  for (uint64_t i = 4 * quarter; i < n; ++i) r[i] += g[i];
}

BENCH_WIDEST void inplaceAddAhead(float* __restrict r, const float* __restrict g, uint64_t n) {
  uint64_t i = 0;
  for (; i + kBlock <= n; i += kBlock) {
    fetchAhead(r + i);
    fetchAhead(g + i);
    for (uint64_t j = 0; j < kBlock; ++j) r[i + j] += g[i + j];
  }
  for (; i < n; ++i) r[i] += g[i];
}

// Any reduction that keeps every word would do; this one needs no licence to reorder.
BENCH_WIDEST uint32_t readAll(const float* x, uint64_t n) {
  uint32_t lanes[kBlock] = {};
  uint64_t i = 0;
  for (; i + kBlock <= n; i += kBlock)
    for (uint64_t j = 0; j < kBlock; ++j) lanes[j] |= std::bit_cast<uint32_t>(x[i + j]);
  return lastWords(lanes, x + i, n - i);
}

BENCH_WIDEST uint32_t readAllAhead(const float* x, uint64_t n) {
  uint32_t lanes[kBlock] = {};
  uint64_t i = 0;
  for (; i + kBlock <= n; i += kBlock) {
    fetchAhead(x + i);
    for (uint64_t j = 0; j < kBlock; ++j) lanes[j] |= std::bit_cast<uint32_t>(x[i + j]);
  }
  return lastWords(lanes, x + i, n - i);
}

}  // namespace bench
