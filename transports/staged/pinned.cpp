#include <cuda_runtime.h>

#include <cstring>
#include <mutex>
#include <vector>

#include "cuda/calls.h"
#include "transports/staged.h"

namespace sparsecoll::staged {

namespace {

using cuda::taken;

class PinnedMemory final : public MemorySource {
 public:
  PinnedMemory(int device, std::shared_ptr<Kernels> kernels) : device_(device), kernels_(std::move(kernels)) {}

  // What streams may still use now stays where it is, for ever.
  ~PinnedMemory() override { giveBack(); }

  Result<void*> allocate(uint64_t bytes) override {
    const cuda::BesideCaptures beside;
    {
      const std::lock_guard lock(mutex_);
      waiting_.reserve(++pieces_);
    }
    giveBack();
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
  // Streams may still use it, and this may be the thread that they wait for.
  void release(void* data, uint64_t) noexcept override {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(data);
  }

 private:
  void giveBack() noexcept {
    const std::lock_guard lock(mutex_);
    if (waiting_.empty() || !kernels_->usesOver()) return;
    for (void* const data : waiting_) cuda::givePinned(data);
    pieces_ -= waiting_.size();
    waiting_.clear();
  }

  const int device_;
  const std::shared_ptr<Kernels> kernels_;
  std::mutex mutex_;
  std::vector<void*> waiting_;  // for streams to be done with it; has room for all pieces
  size_t pieces_ = 0;           // that were handed out and not given back
};

}  // namespace

Result<std::shared_ptr<MemorySource>> pinnedMemory(int device, std::shared_ptr<Kernels> kernels) {
  return std::shared_ptr<MemorySource>(std::make_shared<PinnedMemory>(device, std::move(kernels)));
}

}  // namespace sparsecoll::staged
