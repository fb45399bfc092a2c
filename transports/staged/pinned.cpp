#include <cuda_runtime.h>

#include <cstring>

#include "cuda/calls.h"
#include "transports/staged.h"

namespace sparsecoll::staged {

namespace {

using cuda::taken;

class PinnedMemory final : public MemorySource {
 public:
  explicit PinnedMemory(int device) : device_(device) {}

  Result<void*> allocate(uint64_t bytes) override {
    const cuda::BesideCaptures beside;
    int before = 0;
    if (taken(cudaGetDevice(&before)) != cudaSuccess) before = device_;
    (void)taken(cudaSetDevice(device_));
    void* data = nullptr;
    const cudaError_t error = taken(cudaHostAlloc(&data, bytes, cudaHostAllocPortable | cudaHostAllocMapped));
    (void)taken(cudaSetDevice(before));
    if (error == cudaSuccess) {
      std::memset(data, 0, bytes);
      return data;
    }
    return fail(error == cudaErrorMemoryAllocation ? sparsecollOutOfMemory : sparsecollCudaError,
                "{} bytes of pinned memory for device {}: {}", bytes, device_, cudaGetErrorString(error));
  }
  void release(void* data, uint64_t) noexcept override {
    const cuda::BesideCaptures beside;
    (void)taken(cudaFreeHost(data));
  }

 private:
  const int device_;
};

}  // namespace

Result<std::shared_ptr<MemorySource>> pinnedMemory(int device) {
  return std::shared_ptr<MemorySource>(std::make_shared<PinnedMemory>(device));
}

}  // namespace sparsecoll::staged
