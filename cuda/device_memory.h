// Where the memory of a device's kernels comes from: the caller's allocator, where there is one; else a pool of our own
// in the order of a stream of our own; else cudaMalloc, where the device has no pools.
#pragma once

#include <atomic>
#include <memory>
#include <span>

#include "core/memory.h"
#include "cuda/own_streams.h"
#include "cuda/users.h"

namespace sparsecoll::cuda {

class DeviceMemory : public MemorySource {
 public:
  DeviceMemory(int device, std::shared_ptr<const OwnStreams> streams, std::shared_ptr<Users> users)
      : device_(device), streams_(std::move(streams)), users_(std::move(users)) {}

  Result<void*> allocate(uint64_t bytes) override;
  // Once all users are behind what they had enqueued. What some are not behind in time stays where it is, for ever.
  void release(void* data, uint64_t bytes) noexcept override;
  uint64_t abandonedBytes() const { return abandoned_; }

 protected:
  virtual Result<void*> take(uint64_t bytes) = 0;
  virtual void give(void* data, uint64_t bytes) noexcept = 0;

  int device() const { return device_; }
  cudaStream_t stream() const { return streams_->setUp.get(); }
  Status failed(cudaError_t error, uint64_t bytes) const;

 private:
  const int device_;
  const std::shared_ptr<const OwnStreams> streams_;
  const std::shared_ptr<Users> users_;
  std::atomic<uint64_t> abandoned_{0};
};

// neighbours: the devices whose kernels use this memory, too; with or without the device itself. The caller's allocator
// has to see to it that they can. Errors: CudaError.
Result<std::shared_ptr<DeviceMemory>> makeDeviceMemory(int device, std::span<const int> neighbours,
                                                       const sparsecollAllocator_t* allocator,
                                                       std::shared_ptr<const OwnStreams> streams,
                                                       std::shared_ptr<Users> users);

// What streams and graphs wait for values in, for kernels of all devices that reach each other: never the caller's.
std::shared_ptr<DeviceMemory> makeFlagMemory(int device, std::shared_ptr<const OwnStreams> streams,
                                             std::shared_ptr<Users> users);

// Kernels of each of the devices may use what the others' memory holds from now on. Errors: Unsupported (two of them
// cannot reach each other), CudaError.
Status connectDevices(std::span<const int> devices);

}  // namespace sparsecoll::cuda
