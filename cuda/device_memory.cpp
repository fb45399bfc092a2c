#include "cuda/device_memory.h"

#include <algorithm>
#include <vector>

#include "core/wait.h"
#include "cuda/cuda_kernels.h"
#include "cuda/objects.h"

namespace sparsecoll::cuda {

namespace {

constexpr uint64_t kZeroedMs = 60000;
constexpr uint64_t kKeptBytes = 64u << 20;  // that a pool holds on to when they come back

// Each of them once.
std::vector<int> distinct(std::span<const int> devices) {
  std::vector<int> found(devices.begin(), devices.end());
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

class DeviceMemory : public MemorySource {
 public:
  DeviceMemory(int device, std::span<const int> neighbours) : device_(device), users_(distinct(neighbours)) {
    if (!std::binary_search(users_.begin(), users_.end(), device)) users_.push_back(device);
  }

  cudaError_t make() { return stream_.make(); }

  Result<void*> allocate(uint64_t bytes) override {
    const OnDevice current(device_);
    SC_TRY(void* const data, take(bytes));
    cudaError_t error = cudaMemsetAsync(data, 0, bytes, stream());
    if (error == cudaSuccess) error = untilDone();
    if (error == cudaSuccess) return data;
    (void)cudaGetLastError();  // told here, not by the next call
    give(data, bytes);
    return failed(error, bytes);
  }

  // As cudaFree: whatever runs on devices that reach this memory has ended. So it needs no notes of who uses it, and
  // graphs could not keep any.
  void release(void* data, uint64_t bytes) noexcept override {
    for (const int user : users_) {
      const OnDevice current(user);
      if (cudaDeviceSynchronize() != cudaSuccess) (void)cudaGetLastError();
    }
    const OnDevice current(device_);
    give(data, bytes);
  }

 protected:
  virtual Result<void*> take(uint64_t bytes) = 0;
  virtual void give(void* data, uint64_t bytes) noexcept = 0;

  int device() const { return device_; }
  const std::vector<int>& users() const { return users_; }
  cudaStream_t stream() const { return stream_.get(); }
  Status failed(cudaError_t error, uint64_t bytes) const {
    return fail(error == cudaErrorMemoryAllocation ? sparsecollOutOfMemory : sparsecollCudaError,
                "{} bytes on device {} could not be allocated: {}", bytes, device_, cudaGetErrorString(error));
  }
  Result<void*> taken(void* data, cudaError_t error, uint64_t bytes) const {
    if (error == cudaSuccess) return data;
    (void)cudaGetLastError();  // told here, not by the next call
    return failed(error, bytes);
  }

 private:
  cudaError_t untilDone() const {
    const Deadline deadline = Deadline::in(kZeroedMs);
    cudaError_t state = cudaStreamQuery(stream());
    for (; state == cudaErrorNotReady && !deadline.expired(); state = cudaStreamQuery(stream())) pause(deadline);
    return state;
  }

  const int device_;
  std::vector<int> users_;
  OwnStream stream_;
};

class PlainMemory final : public DeviceMemory {
 public:
  using DeviceMemory::DeviceMemory;

 private:
  Result<void*> take(uint64_t bytes) override {
    void* data = nullptr;
    const cudaError_t error = cudaMalloc(&data, bytes);
    return taken(data, error, bytes);
  }
  void give(void* data, uint64_t) noexcept override { (void)cudaFree(data); }
};

class PoolMemory final : public DeviceMemory {
 public:
  using DeviceMemory::DeviceMemory;

  cudaError_t makePool() {
    cudaMemPoolProps properties = {};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    properties.location.id = device();
    cudaError_t error = pool_.make(properties);
    uint64_t kept = kKeptBytes;
    if (error == cudaSuccess) error = cudaMemPoolSetAttribute(pool_.get(), cudaMemPoolAttrReleaseThreshold, &kept);
    for (const int user : users()) {
      if (error != cudaSuccess || user == device()) continue;
      cudaMemAccessDesc access = {};
      access.location.type = cudaMemLocationTypeDevice;
      access.location.id = user;
      access.flags = cudaMemAccessFlagsProtReadWrite;
      error = cudaMemPoolSetAccess(pool_.get(), &access, 1);
    }
    return error;
  }

 private:
  Result<void*> take(uint64_t bytes) override {
    void* data = nullptr;
    const cudaError_t error = cudaMallocFromPoolAsync(&data, bytes, pool_.get(), stream());
    return taken(data, error, bytes);
  }
  void give(void* data, uint64_t) noexcept override { (void)cudaFreeAsync(data, stream()); }

  OwnPool pool_;
};

class CallersDeviceMemory final : public DeviceMemory {
 public:
  CallersDeviceMemory(int device, std::span<const int> neighbours, const sparsecollAllocator_t& allocator)
      : DeviceMemory(device, neighbours), allocator_(allocator) {}

 private:
  Result<void*> take(uint64_t bytes) override { return allocateFrom(allocator_, bytes, stream()); }
  void give(void* data, uint64_t bytes) noexcept override {
    allocator_.release(allocator_.user, data, bytes, stream());
  }

  const sparsecollAllocator_t allocator_;
};

Result<std::shared_ptr<MemorySource>> ready(const std::shared_ptr<DeviceMemory>& memory, int device) {
  const cudaError_t error = memory->make();
  if (error == cudaSuccess) return std::shared_ptr<MemorySource>(memory);
  (void)cudaGetLastError();
  return fail(sparsecollCudaError, "a stream on device {}: {}", device, cudaGetErrorString(error));
}

}  // namespace

Result<std::shared_ptr<MemorySource>> makeDeviceMemory(int device, std::span<const int> neighbours,
                                                       const sparsecollAllocator_t* allocator) {
  const OnDevice current(device);
  if (allocator != nullptr) return ready(std::make_shared<CallersDeviceMemory>(device, neighbours, *allocator), device);
  int supported = 0;
  if (cudaDeviceGetAttribute(&supported, cudaDevAttrMemoryPoolsSupported, device) != cudaSuccess) supported = 0;
  if (supported != 0) {
    auto memory = std::make_shared<PoolMemory>(device, neighbours);
    if (memory->makePool() == cudaSuccess) return ready(memory, device);
  }
  (void)cudaGetLastError();  // without a pool it works, too
  return ready(std::make_shared<PlainMemory>(device, neighbours), device);
}

Status connectDevices(std::span<const int> devices) {
  const std::vector<int> each = distinct(devices);
  for (const int device : each) {
    const OnDevice current(device);
    for (const int peer : each) {
      if (peer == device) continue;
      int can = 0;
      cudaError_t error = cudaDeviceCanAccessPeer(&can, device, peer);
      if (error == cudaSuccess && can == 0)
        return unsupported("device {} cannot reach the memory of device {}; ranks on them need NCCL", device, peer);
      if (error == cudaSuccess) error = cudaDeviceEnablePeerAccess(peer, 0);
      if (error == cudaSuccess) continue;
      (void)cudaGetLastError();
      if (error != cudaErrorPeerAccessAlreadyEnabled)
        return fail(sparsecollCudaError, "device {} for the memory of device {}: {}", device, peer,
                    cudaGetErrorString(error));
    }
  }
  return {};
}

}  // namespace sparsecoll::cuda
