#include "cuda/device_memory.h"

#include <set>

#include "core/wait.h"
#include "cuda/cuda_kernels.h"
#include "cuda/kept_memory.h"
#include "cuda/objects.h"

namespace sparsecoll::cuda {

namespace {

constexpr uint64_t kZeroedMs = 60000;
constexpr uint64_t kKeptBytes = 64u << 20;  // that a pool holds on to when they come back

// Freeing waits for whatever the device does, other people's work as well.
class PlainMemory final : public DeviceMemory {
 public:
  using DeviceMemory::DeviceMemory;

 private:
  Result<void*> take(uint64_t bytes) override {
    void* data = nullptr;
    const cudaError_t error = taken(cudaMalloc(&data, bytes));
    return error == cudaSuccess ? Result<void*>(data) : failed(error, bytes);
  }
  void give(void* data, uint64_t) noexcept override { (void)taken(cudaFree(data)); }
};

class PoolMemory final : public DeviceMemory {
 public:
  using DeviceMemory::DeviceMemory;

  cudaError_t makePool(std::span<const int> neighbours) {
    cudaMemPoolProps properties = {};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    properties.location.id = device();
    cudaError_t error = pool_.make(properties);
    uint64_t kept = kKeptBytes;
    if (error == cudaSuccess)
      error = taken(cudaMemPoolSetAttribute(pool_.get(), cudaMemPoolAttrReleaseThreshold, &kept));
    for (const int user : std::set<int>(neighbours.begin(), neighbours.end())) {
      if (error != cudaSuccess || user == device()) continue;
      cudaMemAccessDesc access = {};
      access.location.type = cudaMemLocationTypeDevice;
      access.location.id = user;
      access.flags = cudaMemAccessFlagsProtReadWrite;
      error = taken(cudaMemPoolSetAccess(pool_.get(), &access, 1));
    }
    return error;
  }

 private:
  Result<void*> take(uint64_t bytes) override {
    void* data = nullptr;
    const cudaError_t error = taken(cudaMallocFromPoolAsync(&data, bytes, pool_.get(), stream()));
    return error == cudaSuccess ? Result<void*>(data) : failed(error, bytes);
  }
  void give(void* data, uint64_t) noexcept override { (void)taken(cudaFreeAsync(data, stream())); }

  OwnPool pool_;
};

class FlagMemory final : public DeviceMemory {
 public:
  using DeviceMemory::DeviceMemory;

 private:
  Result<void*> take(uint64_t bytes) override {
    void* data = nullptr;
    const cudaError_t error = kept_.take(&data, bytes);
    return error == cudaSuccess ? Result<void*>(data) : failed(error, bytes);
  }
  void give(void* data, uint64_t) noexcept override { kept_.give(data); }

  KeptMemory& kept_ = KeptMemory::ofDevice(device());
};

class CallersDeviceMemory final : public DeviceMemory {
 public:
  CallersDeviceMemory(int device, std::shared_ptr<const OwnStreams> streams, std::shared_ptr<Users> users,
                      const sparsecollAllocator_t& allocator)
      : DeviceMemory(device, std::move(streams), std::move(users)), allocator_(allocator) {}

 private:
  Result<void*> take(uint64_t bytes) override { return allocateFrom(allocator_, bytes, stream()); }
  void give(void* data, uint64_t bytes) noexcept override {
    allocator_.release(allocator_.user, data, bytes, stream());
  }

  const sparsecollAllocator_t allocator_;
};

}  // namespace

Result<void*> DeviceMemory::allocate(uint64_t bytes) {
  const OnDevice current(device_);
  const BesideCaptures beside;
  SC_TRY(void* const data, take(bytes));
  cudaError_t error = taken(cudaMemsetAsync(data, 0, bytes, stream()));
  if (error == cudaSuccess) error = untilDone(stream(), Deadline::in(kZeroedMs));
  if (error == cudaSuccess) return data;
  give(data, bytes);
  return failed(error, bytes);
}

void DeviceMemory::release(void* data, uint64_t bytes) noexcept {
  const OnDevice current(device_);
  const BesideCaptures beside;
  if (users_->wait()) return give(data, bytes);
  abandoned_ += bytes;
  users_->tellAbandoned(bytes, device_);
}

Status DeviceMemory::failed(cudaError_t error, uint64_t bytes) const {
  return fail(error == cudaErrorMemoryAllocation ? sparsecollOutOfMemory : sparsecollCudaError,
              "{} bytes on device {} could not be allocated: {}", bytes, device_, cudaGetErrorString(error));
}

Result<std::shared_ptr<DeviceMemory>> makeDeviceMemory(int device, std::span<const int> neighbours,
                                                       const sparsecollAllocator_t* allocator,
                                                       std::shared_ptr<const OwnStreams> streams,
                                                       std::shared_ptr<Users> users) {
  using Made = std::shared_ptr<DeviceMemory>;
  const OnDevice current(device);
  const BesideCaptures beside;
  if (allocator != nullptr) return Made(std::make_shared<CallersDeviceMemory>(device, streams, users, *allocator));
  int supported = 0;
  if (taken(cudaDeviceGetAttribute(&supported, cudaDevAttrMemoryPoolsSupported, device)) != cudaSuccess) supported = 0;
  if (supported != 0) {
    auto memory = std::make_shared<PoolMemory>(device, streams, users);
    if (memory->makePool(neighbours) == cudaSuccess) return Made(std::move(memory));
  }
  return Made(std::make_shared<PlainMemory>(device, streams, users));  // without a pool it works, too
}

std::shared_ptr<DeviceMemory> makeFlagMemory(int device, std::shared_ptr<const OwnStreams> streams,
                                             std::shared_ptr<Users> users) {
  return std::make_shared<FlagMemory>(device, std::move(streams), std::move(users));
}

Status connectDevices(std::span<const int> devices) {
  const std::set<int> each(devices.begin(), devices.end());
  for (const int device : each) {
    const OnDevice current(device);
    for (const int peer : each) {
      if (peer == device) continue;
      int can = 0;
      cudaError_t error = taken(cudaDeviceCanAccessPeer(&can, device, peer));
      if (error == cudaSuccess && can == 0)
        return unsupported("device {} cannot reach the memory of device {}; ranks on them need NCCL", device, peer);
      if (error == cudaSuccess) error = taken(cudaDeviceEnablePeerAccess(peer, 0));
      if (error != cudaSuccess && error != cudaErrorPeerAccessAlreadyEnabled)
        return fail(sparsecollCudaError, "device {} for the memory of device {}: {}", device, peer,
                    cudaGetErrorString(error));
    }
  }
  return {};
}

}  // namespace sparsecoll::cuda
