// Launching the benchmarks' own kernels. For CUDA sources.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "bench/device/cuda_objects.h"

namespace bench {

inline constexpr uint32_t kThreads = 256;  // of a block

// One thread an item, and further items in turn (firstItem, nextItem).
inline dim3 gridFor(uint64_t items) {
  constexpr uint64_t kMostBlocks = 1u << 16;
  const uint64_t blocks = (items + kThreads - 1) / kThreads;
  return dim3(static_cast<unsigned>(blocks < 1 ? 1 : blocks > kMostBlocks ? kMostBlocks : blocks));
}

inline __device__ uint64_t firstItem() { return uint64_t{blockIdx.x} * kThreads + threadIdx.x; }
inline __device__ uint64_t nextItem() { return uint64_t{gridDim.x} * kThreads; }

template <class... Parameters, class... Arguments>
void launch(const char* name, dim3 grid, cudaStream_t stream, void (*kernel)(Parameters...), Arguments... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3(kThreads);
  config.stream = stream;
  checkCuda(cudaLaunchKernelEx(&config, kernel, arguments...), name);
}

}  // namespace bench
