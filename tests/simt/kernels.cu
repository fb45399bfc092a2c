#include "tests/simt/kernels.h"

#if !defined(SPARSECOLL_SIMT) || defined(__CUDACC__)
#error "this file is for the emulation"
#endif

namespace simt::test {
namespace {

constexpr unsigned kWarps = 32, kBins = 256;

template <bool kBarrier>
__global__ void __launch_bounds__(1024) scan(const uint32_t* __restrict__ from, uint32_t* __restrict__ to,
                                             unsigned count) {
  __shared__ uint32_t sums[kWarps];
  const unsigned lane = threadIdx.x % warpSize, warp = threadIdx.x / warpSize;
  const uint32_t own = threadIdx.x < count ? __ldg(from + threadIdx.x) : 0;
  uint32_t sum = own;
#pragma unroll
  for (unsigned by = 1; by < 32; by *= 2) {
    const uint32_t other = __shfl_up_sync(0xffffffffu, sum, by);
    if (lane >= by) sum += other;
  }
  if (lane == 31) sums[warp] = sum;
  if (kBarrier) __syncthreads();
  uint32_t before = 0;
  for (unsigned i = 0; i < warp; ++i) before += sums[i];
  if (threadIdx.x < count) to[threadIdx.x] = before + sum - own;
}

__global__ void histogram(const uint8_t* from, uint32_t* bins, unsigned count) {
  auto* own = static_cast<uint32_t*>(simtDynamicShared());
  own[threadIdx.x] = 0;
  __syncthreads();
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    atomicAdd(&own[from[i]], 1);
  }
  __syncthreads();
  if (own[threadIdx.x] != 0) atomicAdd(&bins[threadIdx.x], own[threadIdx.x]);
}

}  // namespace

cudaError_t launchScan(const uint32_t* from, uint32_t* to, unsigned count, bool barrier) {
  cudaLaunchConfig_t config{};
  config.blockDim = 1024;
  return cudaLaunchKernelEx(&config, barrier ? scan<true> : scan<false>, from, to, count);
}

cudaError_t launchHistogram(const uint8_t* from, uint32_t* bins, unsigned count, unsigned blocks) {
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = kBins;
  config.dynamicSmemBytes = kBins * sizeof(uint32_t);
  return cudaLaunchKernelEx(&config, histogram, from, bins, count);
}

}  // namespace simt::test
