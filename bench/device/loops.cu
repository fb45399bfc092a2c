#include "bench/device/loops.h"

#include <cmath>

#include "bench/device/launch.h"
#include "core/numeric.h"
#include "core/random.h"

namespace bench {

namespace {

constexpr uint32_t kWide = 4;  // elements of a 16-byte load
constexpr uint32_t kDeep = 4;  // of those in flight in a thread

template <class T>
struct alignas(16) Piece {
  T at[kWide];
};
using Wide = Piece<float>;
using WideBits = Piece<uint32_t>;

// In (0, 1).
__device__ float unitOf(uint64_t random) { return (static_cast<float>(random >> 41) + 0.5f) * 0x1p-23f; }

// Box and Muller, one entry at a time: a fill is not timed.
__global__ void normal(float* x, uint64_t n, uint64_t seed) {
  for (uint64_t i = firstItem(); i < n; i += nextItem()) {
    const uint64_t random = sparsecoll::mixBits(seed ^ sparsecoll::mixBits(2 * i));
    const uint64_t other = sparsecoll::mixBits(seed ^ sparsecoll::mixBits(2 * i + 1));
    x[i] = sqrtf(-2 * logf(unitOf(random))) * cosf(6.2831853f * unitOf(other));
  }
}

template <class T>
__global__ void rounded(T* to, const float* from, uint64_t n) {
  for (uint64_t i = firstItem(); i < n; i += nextItem()) to[i] = sparsecoll::Element<T>::store(from[i]);
}

template <class T>
__global__ void scaled(float* to, const T* from, float factor, uint64_t n) {
  for (uint64_t i = firstItem(); i < n; i += nextItem()) to[i] = factor * sparsecoll::Element<T>::load(from[i]);
}

// A block's threads walk a stretch of kThreads * kDeep pieces with all loads before the first use.
__global__ void __launch_bounds__(kThreads) add(Wide* r, const Wide* g, float factor, uint64_t pieces) {
  const uint64_t stretch = uint64_t{kThreads} * kDeep;
  for (uint64_t begin = blockIdx.x * stretch; begin < pieces; begin += gridDim.x * stretch) {
    Wide rs[kDeep] = {};
    Wide gs[kDeep] = {};
    for (uint32_t d = 0; d < kDeep; ++d) {
      const uint64_t i = begin + d * kThreads + threadIdx.x;
      if (i >= pieces) break;
      rs[d] = r[i];
      gs[d] = g[i];
    }
    for (uint32_t d = 0; d < kDeep; ++d) {
      const uint64_t i = begin + d * kThreads + threadIdx.x;
      if (i >= pieces) break;
      for (uint32_t q = 0; q < kWide; ++q) rs[d].at[q] = fmaf(factor, gs[d].at[q], rs[d].at[q]);
      r[i] = rs[d];
    }
  }
}

__global__ void __launch_bounds__(kThreads) read(const WideBits* x, uint64_t pieces, uint32_t* sink) {
  const uint64_t stretch = uint64_t{kThreads} * kDeep;
  uint32_t all = 0;
  for (uint64_t begin = blockIdx.x * stretch; begin < pieces; begin += gridDim.x * stretch)
    for (uint32_t d = 0; d < kDeep; ++d) {
      const uint64_t i = begin + d * kThreads + threadIdx.x;
      if (i >= pieces) break;
      const WideBits piece = x[i];
      all |= piece.at[0] ^ piece.at[1] ^ piece.at[2] ^ piece.at[3];
    }
  if (all == 0xffffffffu) *sink = all;
}

__global__ void reaching(const float* x, uint64_t n, uint32_t key, unsigned long long* count) {
  unsigned long long own = 0;
  for (uint64_t i = firstItem(); i < n; i += nextItem()) own += sparsecoll::Magnitude<float>::of(x[i]) >= key ? 1 : 0;
  if (own != 0) atomicAdd(count, own);
}

__global__ void gatherAt(const float* x, const uint32_t* indices, const uint32_t* count, float* values) {
  for (uint64_t i = firstItem(); i < *count; i += nextItem()) values[i] = x[indices[i]];
}

__global__ void clear(float* x, const uint32_t* indices, const uint32_t* count) {
  for (uint64_t i = firstItem(); i < *count; i += nextItem()) x[indices[i]] = 0;
}

// Calls f with an element of a gradient whose residual is float.
template <class F>
void withGradient(sparsecollDataType_t type, const F& f) {
  if (type == sparsecollFloat16) return f(sparsecoll::Half{});
  if (type == sparsecollBfloat16) return f(sparsecoll::Bfloat{});
  f(float{});
}

}  // namespace

void fillNormal(float* x, uint64_t n, uint64_t seed, cudaStream_t stream) {
  launch("fillNormal", gridFor(n), stream, normal, x, n, seed);
}

void roundTo(void* to, sparsecollDataType_t type, const float* from, uint64_t n, cudaStream_t stream) {
  withGradient(type,
               [&]<class T>(T) { launch("roundTo", gridFor(n), stream, rounded<T>, static_cast<T*>(to), from, n); });
}

void scale(float* to, const void* from, sparsecollDataType_t type, float factor, uint64_t n, cudaStream_t stream) {
  withGradient(type, [&]<class T>(T) {
    launch("scale", gridFor(n), stream, scaled<T>, to, static_cast<const T*>(from), factor, n);
  });
}

void addInPlace(float* r, const float* g, uint64_t n, cudaStream_t stream, float factor) {
  launch("addInPlace", gridFor(n / kWide / kDeep), stream, add, reinterpret_cast<Wide*>(r),
         reinterpret_cast<const Wide*>(g), factor, n / kWide);
}

void readAll(const float* x, uint64_t n, uint32_t* sink, cudaStream_t stream) {
  launch("readAll", gridFor(n / kWide / kDeep), stream, read, reinterpret_cast<const WideBits*>(x), n / kWide, sink);
}

void gather(const float* x, const uint32_t* indices, const uint32_t* count, uint64_t most, float* values,
            cudaStream_t stream) {
  launch("gather", gridFor(most), stream, gatherAt, x, indices, count, values);
}

void clearAt(float* x, const uint32_t* indices, const uint32_t* count, uint64_t most, cudaStream_t stream) {
  launch("clearAt", gridFor(most), stream, clear, x, indices, count);
}

void countReaching(const float* x, uint64_t n, uint32_t key, unsigned long long* count, cudaStream_t stream) {
  launch("countReaching", gridFor(n), stream, reaching, x, n, key, count);
}

}  // namespace bench
