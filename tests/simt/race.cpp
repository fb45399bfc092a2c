// Threads of one block hand values on through shared memory, with a barrier or, planted, without. Results are right
// both times, since round robin happens to run the writers first: only the race checker can tell.
#include <cstdio>
#include <string_view>

#include "tests/simt/simt.h"

namespace {

__global__ void handOn(int* to, bool wait) {
  __shared__ int values[64];
  values[threadIdx.x] = static_cast<int>(threadIdx.x);
  if (wait) {
    __syncthreads();
  } else {
    __ballot_sync(0xffffffffu, 1);  // a vote orders no memory
  }
  to[threadIdx.x] = values[threadIdx.x ^ 1];
}

// The other half of the promise: __syncwarp and fences around a flag are enough.
__global__ void correct(int* to) {
  __shared__ int values[64];
  __shared__ unsigned flag;
  if (threadIdx.x == 0) flag = 0;
  values[threadIdx.x] = static_cast<int>(threadIdx.x);
  __syncwarp();
  to[threadIdx.x] = values[threadIdx.x ^ 1];
  __syncthreads();
  if (threadIdx.x == 0) {
    values[0] = 100;
    __threadfence();
    atomicExch(&flag, 1u);
  }
  if (threadIdx.x == 40) {
    while (atomicAdd(&flag, 0u) == 0) __nanosleep(20);
    __threadfence();
    to[40] = values[0];
  }
}

}  // namespace

int main(int argc, char** argv) {
  const bool planted = argc > 1 && std::string_view(argv[1]) == "planted";
#if !defined(__SANITIZE_THREAD__)
  if (planted) {
    std::puts("skipped: only a build with ThreadSanitizer sees the planted race");
    return 77;
  }
#endif
  int* to = nullptr;
  cudaMalloc(&to, 64 * sizeof *to);
  cudaLaunchConfig_t config{};
  config.blockDim = 64;
  cudaLaunchKernelEx(&config, handOn, to, !planted);
  bool right = true;
  for (int i = 0; i < 64; ++i) right = right && to[i] == (i ^ 1);
  cudaLaunchKernelEx(&config, correct, to);
  right = right && to[40] == 100 && simt::errors().empty();
  cudaFree(to);
  return right ? 0 : 1;
}
