// Owners of what the runtime hands out.
#pragma once

#include <cuda_runtime.h>

#include <utility>

namespace sparsecoll::cuda {

// A handle that one function destroys.
template <class Handle, cudaError_t (*kDestroy)(Handle)>
class Owned {
 public:
  Owned() = default;
  Owned(Owned&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Owned() {
    if (handle_ != nullptr) (void)kDestroy(handle_);
  }
  Handle get() const { return handle_; }
  explicit operator bool() const { return handle_ != nullptr; }

 protected:
  Handle handle_ = nullptr;
};

// On the device that is current when they are made.
class OwnStream : public Owned<cudaStream_t, cudaStreamDestroy> {
 public:
  cudaError_t make() { return cudaStreamCreateWithFlags(&handle_, cudaStreamNonBlocking); }
};
class OwnEvent : public Owned<cudaEvent_t, cudaEventDestroy> {
 public:
  cudaError_t make(unsigned flags = cudaEventDisableTiming) { return cudaEventCreateWithFlags(&handle_, flags); }
};
class OwnPool : public Owned<cudaMemPool_t, cudaMemPoolDestroy> {
 public:
  cudaError_t make(const cudaMemPoolProps& properties) { return cudaMemPoolCreate(&handle_, &properties); }
};

}  // namespace sparsecoll::cuda
