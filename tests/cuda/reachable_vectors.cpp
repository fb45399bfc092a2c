// What the library allocates on a device lies in memory that the host reaches, too: tests look into residuals. The
// linker puts these calls in front of the runtime's.
#include <cuda_runtime.h>

#include "tests/cuda/reachable_memory.h"

extern "C" {
cudaError_t __wrap_cudaMalloc(void** memory, size_t bytes);
cudaError_t __wrap_cudaMallocFromPoolAsync(void** memory, size_t bytes, cudaMemPool_t pool, cudaStream_t stream);
cudaError_t __wrap_cudaFree(void* memory);
cudaError_t __wrap_cudaFreeAsync(void* memory, cudaStream_t stream);
}

namespace {

constexpr size_t kAlignment = 256;  // of cudaMalloc

cudaError_t take(void** memory, size_t bytes) {
  *memory = sparsecoll::test::takeReachable(bytes, kAlignment);
  return *memory != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
}

// As cudaFree does, behind whatever may still use it.
cudaError_t giveBack(void* memory) {
  const cudaError_t state = cudaDeviceSynchronize();
  if (memory != nullptr) sparsecoll::test::giveBackReachable(memory);
  return state;
}

}  // namespace

cudaError_t __wrap_cudaMalloc(void** memory, size_t bytes) { return take(memory, bytes); }
cudaError_t __wrap_cudaMallocFromPoolAsync(void** memory, size_t bytes, cudaMemPool_t, cudaStream_t) {
  return take(memory, bytes);
}
cudaError_t __wrap_cudaFree(void* memory) { return giveBack(memory); }
cudaError_t __wrap_cudaFreeAsync(void* memory, cudaStream_t) { return giveBack(memory); }
