#include "tests/simt/simt.h"

#include "tests/support/catch.h"

namespace {

__global__ void fill(uint32_t* to, uint32_t value, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) to[i] = value + i;
}

}  // namespace

TEST_CASE("a kernel writes what its indices say") {
  constexpr unsigned count = 1000;
  uint32_t* device = nullptr;
  REQUIRE(cudaMalloc(&device, count * sizeof *device) == cudaSuccess);
  cudaLaunchConfig_t config{};
  config.gridDim = 8;
  config.blockDim = 128;
  REQUIRE(cudaLaunchKernelEx(&config, fill, device, 7u, count) == cudaSuccess);
  for (unsigned i = 0; i < count; ++i) REQUIRE(device[i] == 7 + i);
  REQUIRE(cudaFree(device) == cudaSuccess);
}
