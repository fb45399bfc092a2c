// Every intrinsic against plain arithmetic.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "tests/simt/launcher.h"

namespace simt::test {
namespace {

constexpr unsigned kAll = 0xffffffffu;

// Lane i holds values[i]; what each lane gets lands in to[i].
template <class T, class R>
struct Lanes {
  std::vector<T> values;
  template <class F>
  std::vector<R> run(F) const {
    const Device<T> from(values);
    const Device<R> to(values.size());
    const auto threads = static_cast<unsigned>(values.size());
    REQUIRE(launch(
                +[](const T* in, R* out) { out[threadIdx.x] = F()(in[threadIdx.x]); }, 1, threads, 0,
                static_cast<const T*>(from), to.operator R*()) == cudaSuccess);
    REQUIRE(errors().empty());
    return to.values();
  }
};

template <class T>
std::vector<T> mixed(size_t count = 64) {
  std::vector<T> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<T>((i + 3) * 0x9e3779b97f4a7c15u >> 17);
  return values;
}

// expected(lane, the values of its warp)
template <class T, class R, class F, class E>
void compare(F device, E expected) {
  const std::vector<T> values = mixed<T>();
  underSchedules([&] {
    const std::vector<R> got = Lanes<T, R>{values}.run(device);
    for (unsigned i = 0; i < 64; ++i) {
      CAPTURE(i);
      REQUIRE(got[i] == expected(i % 32, values.data() + i / 32 * 32));
    }
  });
}

template <class T, unsigned kWidth>
void compareShuffles() {
  compare<T, T>([](T x) { return __shfl_sync(kAll, x, static_cast<int>(threadIdx.x * 5 + 3), kWidth); },
                [](unsigned lane, const T* warp) { return warp[lane / kWidth * kWidth + (lane * 5 + 3) % kWidth]; });
  compare<T, T>([](T x) { return __shfl_up_sync(kAll, x, 3u, kWidth); },
                [](unsigned lane, const T* warp) { return warp[lane % kWidth >= 3 ? lane - 3 : lane]; });
  compare<T, T>([](T x) { return __shfl_down_sync(kAll, x, 3u, kWidth); },
                [](unsigned lane, const T* warp) { return warp[lane % kWidth + 3 < kWidth ? lane + 3 : lane]; });
  compare<T, T>([](T x) { return __shfl_xor_sync(kAll, x, kWidth - 1, kWidth); },
                [](unsigned lane, const T* warp) { return warp[lane ^ (kWidth - 1)]; });
}

TEST_CASE("shuffles, of 4 and 8 bytes, in segments") {
  compareShuffles<uint32_t, 32>();
  compareShuffles<double, 32>();
  compareShuffles<int, 8>();
  compareShuffles<float, 16>();
  compareShuffles<unsigned long long, 4>();
}

TEST_CASE("an exclusive-or shuffle reads from segments before its own only") {
  compare<int, int>([](int x) { return __shfl_xor_sync(kAll, x, 8, 8); },
                    [](unsigned lane, const int* warp) { return warp[lane & 8 ? lane ^ 8 : lane]; });
}

template <class R, class F>
R overWarp(const R* warp, F combine) {
  R result = warp[0];
  for (unsigned i = 1; i < 32; ++i) result = combine(result, warp[i]);
  return result;
}

TEST_CASE("votes and reductions") {
  const auto ballotOf = [](unsigned, const unsigned* warp) {
    unsigned result = 0;
    for (unsigned i = 0; i < 32; ++i) result |= (warp[i] & 1) << i;
    return result;
  };
  compare<unsigned, unsigned>([](unsigned x) { return __ballot_sync(kAll, static_cast<int>(x & 1)); }, ballotOf);
  static const std::vector<unsigned> values = mixed<unsigned>();
  compare<unsigned, int>([](unsigned) { return __any_sync(kAll, threadIdx.x == 40); },
                         [](unsigned, const unsigned* warp) { return static_cast<int>(warp[0] == values[32]); });
  compare<unsigned, int>([](unsigned) { return __all_sync(kAll, threadIdx.x < 63); },
                         [](unsigned, const unsigned* warp) { return static_cast<int>(warp[0] == values[0]); });
  compare<unsigned, unsigned>([](unsigned x) { return __reduce_add_sync(kAll, x); },
                              [](unsigned, const unsigned* w) { return overWarp(w, std::plus<unsigned>()); });
  compare<unsigned, unsigned>([](unsigned x) { return __reduce_min_sync(kAll, x); },
                              [](unsigned, const unsigned* w) { return *std::min_element(w, w + 32); });
  compare<unsigned, unsigned>([](unsigned x) { return __reduce_max_sync(kAll, x); },
                              [](unsigned, const unsigned* w) { return *std::max_element(w, w + 32); });
  compare<int, int>([](int x) { return __reduce_min_sync(kAll, x); },
                    [](unsigned, const int* w) { return *std::min_element(w, w + 32); });
  compare<int, int>([](int x) { return __reduce_max_sync(kAll, x); },
                    [](unsigned, const int* w) { return *std::max_element(w, w + 32); });
  compare<int, int>([](int x) { return __reduce_add_sync(kAll, x >> 8); },
                    [](unsigned, const int* w) {
                      int sum = 0;
                      for (int i = 0; i < 32; ++i) sum += w[i] >> 8;
                      return sum;
                    });
  compare<unsigned, unsigned>([](unsigned x) { return __reduce_and_sync(kAll, x | 5); },
                              [](unsigned, const unsigned* w) { return overWarp(w, std::bit_and<unsigned>()) | 5; });
  compare<unsigned, unsigned>([](unsigned x) { return __reduce_or_sync(kAll, x); },
                              [](unsigned, const unsigned* w) { return overWarp(w, std::bit_or<unsigned>()); });
  compare<unsigned, unsigned>([](unsigned x) { return __reduce_xor_sync(kAll, x); },
                              [](unsigned, const unsigned* w) { return overWarp(w, std::bit_xor<unsigned>()); });
  compare<unsigned, unsigned>([](unsigned x) { return __match_any_sync(kAll, x % 5); },
                              [](unsigned lane, const unsigned* w) {
                                unsigned result = 0;
                                for (unsigned i = 0; i < 32; ++i) result |= (w[i] % 5 == w[lane] % 5 ? 1u : 0u) << i;
                                return result;
                              });
}

TEST_CASE("parts of a warp may meet by themselves") {
  compare<unsigned, unsigned>(
      [](unsigned x) {
        const unsigned mask = threadIdx.x % 2 ? 0xaaaaaaaau : 0x55555555u;
        return threadIdx.x % 2 ? __reduce_add_sync(mask, x) : __reduce_xor_sync(mask, x);
      },
      [](unsigned lane, const unsigned* w) {
        unsigned result = 0;
        for (unsigned i = lane % 2; i < 32; i += 2) result = lane % 2 ? result + w[i] : result ^ w[i];
        return result;
      });
}

TEST_CASE("bits") {
  CHECK(__popc(0xf00fu) == 8);
  CHECK(__popcll(~0ull) == 64);
  CHECK(__clz(1) == 31);
  CHECK(__clz(0) == 32);
  CHECK(__clzll(1) == 63);
  CHECK(__ffs(0) == 0);
  CHECK(__ffs(static_cast<int>(0x80000000u)) == 32);
  CHECK(__ffsll(1ll << 40) == 41);
  CHECK(__brev(1u) == 0x80000000u);
  CHECK(__brev(0x12345678u) == 0x1e6a2c48u);
  CHECK(__brevll(2ull) == 1ull << 62);
  CHECK(__umulhi(0x80000000u, 6u) == 3);
  CHECK(__mulhi(-1, 5) == -1);
  CHECK(__umul64hi(1ull << 63, 6) == 3);
  CHECK(__funnelshift_l(0x80000000u, 1u, 1) == 3);
  CHECK(__funnelshift_r(0x80000000u, 1u, 1) == 0xc0000000u);
  CHECK(__byte_perm(0x33221100u, 0x77665544u, 0x7140u) == 0x77114400u);
  CHECK(__byte_perm(0x80u, 0u, 0x0008u) == 0x808080ffu);
}

TEST_CASE("floating point") {
  CHECK(__float_as_uint(1.0f) == 0x3f800000u);
  CHECK(__float_as_int(-0.0f) == std::numeric_limits<int>::min());
  CHECK(__uint_as_float(0x7f800000u) == std::numeric_limits<float>::infinity());
  CHECK(__int_as_float(0x3f800000) == 1.0f);
  CHECK(__double_as_longlong(1.0) == 0x3ff0000000000000ll);
  CHECK(__longlong_as_double(0x4000000000000000ll) == 2.0);
  CHECK(__fmaf_rn(0.1f, 0.1f, -__fmul_rn(0.1f, 0.1f)) != 0.0f);
  CHECK(__fmaf_rn(0.1f, 0.1f, -0.01f) == fmaf(0.1f, 0.1f, -0.01f));
  CHECK(__fma_rn(3.0, 4.0, 5.0) == fma(3.0, 4.0, 5.0));
  CHECK(min(2.0f, NAN) == 2.0f);
  CHECK(max(-1, 3) == 3);
}

TEST_CASE("vectors have the sizes and alignments of CUDA") {
  CHECK((sizeof(float2) == 8 && alignof(float2) == 8));
  CHECK((sizeof(float4) == 16 && alignof(float4) == 16));
  CHECK((sizeof(double2) == 16 && alignof(double2) == 16));
  CHECK((sizeof(uint3) == 12 && alignof(uint3) == 4));
  CHECK((sizeof(ushort4) == 8 && alignof(ushort4) == 8));
  CHECK((sizeof(ulonglong2) == 16 && alignof(ulonglong2) == 16));
  CHECK((sizeof(uchar4) == 4 && alignof(uchar4) == 4));
  CHECK((sizeof(longlong4) == 32 && alignof(longlong4) == 16));
  CHECK(make_uint4(1, 2, 3, 4).w == 4);
  CHECK(make_float2(1, 2).y == 2.0f);
}

TEST_CASE("loads and stores with hints") {
  float4 vector = make_float4(1, 2, 3, 4);
  const uint32_t word = 7;
  CHECK((__ldg(&word) == 7 && __ldcs(&word) == 7 && __ldcg(&word) == 7 && __ldcv(&word) == 7));
  CHECK((__ldg(&vector).x == 1 && __ldcs(&vector).y == 2 && __ldcg(&vector).z == 3));
  __stcs(&vector, make_float4(5, 6, 7, 8));
  CHECK(vector.w == 8);
  unsigned long long wide = 0;
  __stcg(&wide, 9);
  CHECK(wide == 9);
}

template <class T>
void compareAtomics() {
  T cell = 12;
  CHECK((atomicAdd(&cell, T{3}) == 12 && cell == 15));
  CHECK((atomicOr(&cell, T{16}) == 15 && cell == 31));
  CHECK((atomicAnd(&cell, T{28}) == 31 && cell == 28));
  CHECK((atomicXor(&cell, T{5}) == 28 && cell == 25));
  CHECK((atomicMax(&cell, T{40}) == 25 && cell == 40));
  CHECK((atomicMin(&cell, T{2}) == 40 && cell == 2));
  CHECK((atomicExch(&cell, T{9}) == 2 && cell == 9));
  CHECK((atomicCAS(&cell, T{8}, T{1}) == 9 && cell == 9));
  CHECK((atomicCAS(&cell, T{9}, T{1}) == 9 && cell == 1));
}

TEST_CASE("atomics") {
  compareAtomics<int>();
  compareAtomics<unsigned>();
  compareAtomics<unsigned long long>();
  unsigned cell = 2;
  CHECK((atomicInc(&cell, 3u) == 2 && cell == 3));
  CHECK((atomicInc(&cell, 3u) == 3 && cell == 0));
  CHECK((atomicDec(&cell, 3u) == 0 && cell == 3));
  CHECK((atomicSub(&cell, 4u) == 3 && cell == ~0u));
  int wraps = std::numeric_limits<int>::max();
  CHECK((atomicAdd(&wraps, 1) == std::numeric_limits<int>::max() && wraps == std::numeric_limits<int>::min()));
  CHECK((atomicMin(&wraps, -1) == wraps && atomicMax(&wraps, -1) == std::numeric_limits<int>::min() && wraps == -1));
}

}  // namespace
}  // namespace simt::test
