#include "bench/device/loops.h"

#include <cmath>
#include <utility>

#include "bench/device/cuda_objects.h"
#include "core/random.h"

namespace bench {

namespace {

constexpr uint32_t kThreads = 256;
constexpr uint64_t kMostBlocks = 1u << 16;
constexpr uint32_t kWide = 4;  // elements of a 16-byte load
constexpr uint32_t kDeep = 4;  // of those in flight in a thread

template <class T>
struct alignas(16) Piece {
  T at[kWide];
};
using Wide = Piece<float>;
using WideBits = Piece<uint32_t>;

// One thread an item, and further items in turn.
template <class... Parameters, class... Arguments>
void launch(const char* name, uint64_t items, cudaStream_t stream, void (*kernel)(Parameters...),
            Arguments... arguments) {
  const uint64_t blocks = (items + kThreads - 1) / kThreads;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(blocks < 1 ? 1 : blocks > kMostBlocks ? kMostBlocks : blocks));
  config.blockDim = dim3(kThreads);
  config.stream = stream;
  checkCuda(cudaLaunchKernelEx(&config, kernel, arguments...), name);
}

__device__ uint64_t firstItem() { return uint64_t{blockIdx.x} * kThreads + threadIdx.x; }
__device__ uint64_t nextItem() { return uint64_t{gridDim.x} * kThreads; }

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

__global__ void scaled(float* to, const float* from, float factor, uint64_t n) {
  for (uint64_t i = firstItem(); i < n; i += nextItem()) to[i] = factor * from[i];
}

// A block's threads walk a stretch of kThreads * kDeep pieces with all loads before the first use.
__global__ void __launch_bounds__(kThreads) add(Wide* r, const Wide* g, uint64_t pieces) {
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
      for (uint32_t q = 0; q < kWide; ++q) rs[d].at[q] += gs[d].at[q];
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

__global__ void nonZeros(const float* x, uint64_t n, unsigned long long* count) {
  unsigned long long own = 0;
  for (uint64_t i = firstItem(); i < n; i += nextItem()) own += x[i] != 0 ? 1 : 0;
  if (own != 0) atomicAdd(count, own);
}

}  // namespace

void fillNormal(float* x, uint64_t n, uint64_t seed, cudaStream_t stream) {
  launch("fillNormal", n, stream, normal, x, n, seed);
}

void scale(float* to, const float* from, float factor, uint64_t n, cudaStream_t stream) {
  launch("scale", n, stream, scaled, to, from, factor, n);
}

void addInPlace(float* r, const float* g, uint64_t n, cudaStream_t stream) {
  launch("addInPlace", n / kWide / kDeep, stream, add, reinterpret_cast<Wide*>(r), reinterpret_cast<const Wide*>(g),
         n / kWide);
}

void readAll(const float* x, uint64_t n, uint32_t* sink, cudaStream_t stream) {
  launch("readAll", n / kWide / kDeep, stream, read, reinterpret_cast<const WideBits*>(x), n / kWide, sink);
}

void countNonZeros(const float* x, uint64_t n, unsigned long long* count, cudaStream_t stream) {
  launch("countNonZeros", n, stream, nonZeros, x, n, count);
}

}  // namespace bench
