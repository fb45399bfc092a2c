#include <cuda_runtime.h>

#include <cstring>

#include "cuda/calls.h"
#include "transports/staged.h"

namespace sparsecoll::staged {

namespace {

using cuda::taken;

class PinnedMemory final : public MemorySource {
 public:
  PinnedMemory(int device, std::shared_ptr<Kernels> kernels) : device_(device), kernels_(std::move(kernels)) {}

  Result<void*> allocate(uint64_t bytes) override {
    const cuda::BesideCaptures beside;
    int before = 0;
    if (taken(cudaGetDevice(&before)) != cudaSuccess) before = device_;
    (void)taken(cudaSetDevice(device_));
    void* data = nullptr;
    const cudaError_t error = cuda::takePinned(&data, bytes);
    (void)taken(cudaSetDevice(before));
    if (error == cudaSuccess) {
      std::memset(data, 0, bytes);
      return data;
    }
    return fail(error == cudaErrorMemoryAllocation ? sparsecollOutOfMemory : sparsecollCudaError,
                "{} bytes of pinned memory for device {}: {}", bytes, device_, cudaGetErrorString(error));
  }
  // What streams may still use stays where it is, for ever, as the device's memory beside it does.
  void release(void* data, uint64_t) noexcept override {
    if (kernels_->usesOver()) cuda::givePinned(data);
  }

 private:
  const int device_;
  const std::shared_ptr<Kernels> kernels_;
};

}  // namespace

Result<std::shared_ptr<MemorySource>> pinnedMemory(int device, std::shared_ptr<Kernels> kernels) {
  return std::shared_ptr<MemorySource>(std::make_shared<PinnedMemory>(device, std::move(kernels)));
}

}  // namespace sparsecoll::staged
