// Owners of what the runtime hands out.
#pragma once

#include <cuda_runtime.h>

#include <utility>

#include "cuda/calls.h"

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
    if (handle_ != nullptr) (void)taken(kDestroy(handle_));
  }
  Handle get() const { return handle_; }
  explicit operator bool() const { return handle_ != nullptr; }

 protected:
  Handle handle_ = nullptr;
};

// On the device that is current when they are made.
class OwnStream : public Owned<cudaStream_t, cudaStreamDestroy> {
 public:
  cudaError_t make(int priority = 0) {
    return taken(cudaStreamCreateWithPriority(&handle_, cudaStreamNonBlocking, priority));
  }
};
class OwnEvent : public Owned<cudaEvent_t, cudaEventDestroy> {
 public:
  cudaError_t make(unsigned flags = cudaEventDisableTiming) { return taken(cudaEventCreateWithFlags(&handle_, flags)); }
};
class OwnPool : public Owned<cudaMemPool_t, cudaMemPoolDestroy> {
 public:
  cudaError_t make(const cudaMemPoolProps& properties) { return taken(cudaMemPoolCreate(&handle_, &properties)); }
};

}  // namespace sparsecoll::cuda
