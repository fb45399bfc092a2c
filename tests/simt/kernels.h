// Kernels of kernels.cu, through the functions that launch them.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace simt::test {

// Sums before each entry of 1024 at most; without the barrier in the middle they are wrong.
cudaError_t launchScan(const uint32_t* from, uint32_t* to, unsigned count, bool barrier);
// 256 bins, blocks of 256 threads.
cudaError_t launchHistogram(const uint8_t* from, uint32_t* bins, unsigned count, unsigned blocks);

}  // namespace simt::test
