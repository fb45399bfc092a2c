#include <cuda_runtime.h>

#include <cstring>

#include "transports/staged.h"

namespace sparsecoll::staged {

namespace {

class PinnedMemory final : public MemorySource {
 public:
  explicit PinnedMemory(int device) : device_(device) {}

  Result<void*> allocate(uint64_t bytes) override {
    int before = 0;
    if (cudaGetDevice(&before) != cudaSuccess) before = device_;
    (void)cudaSetDevice(device_);
    void* data = nullptr;
    const cudaError_t error = cudaHostAlloc(&data, bytes, cudaHostAllocPortable | cudaHostAllocMapped);
    (void)cudaSetDevice(before);
    if (error == cudaSuccess) {
      std::memset(data, 0, bytes);
      return data;
    }
    (void)cudaGetLastError();  // told here, not by the next call
    return fail(error == cudaErrorMemoryAllocation ? sparsecollOutOfMemory : sparsecollCudaError,
                "{} bytes of pinned memory for device {}: {}", bytes, device_, cudaGetErrorString(error));
  }
  void release(void* data, uint64_t) noexcept override {
    if (cudaFreeHost(data) != cudaSuccess) (void)cudaGetLastError();
  }

 private:
  const int device_;
};

}  // namespace

Result<std::shared_ptr<MemorySource>> pinnedMemory(int device) {
  return std::shared_ptr<MemorySource>(std::make_shared<PinnedMemory>(device));
}

}  // namespace sparsecoll::staged
