// Kernels on the memory of one device.
#pragma once

#include <memory>
#include <span>
#include <utility>

#include "core/kernels.h"
#include "core/memory.h"

namespace sparsecoll::cuda {

// Devices that can be used; 0 also where there is no driver.
int deviceCount();

// Makes a device the calling thread's current one; the one that was it before is so again afterwards. -1, the host:
// leaves it alone.
class OnDevice {
 public:
  explicit OnDevice(int device);
  ~OnDevice();
  OnDevice(OnDevice&& other) noexcept : before_(std::exchange(other.before_, kStays)) {}
  OnDevice& operator=(OnDevice&&) = delete;

 private:
  static constexpr int kStays = -1;
  int before_ = kStays;
};

// Errors: InvalidArgument (no such device), CudaError, OutOfMemory.
// allocator: where their memory comes from; nullptr: the device's. neighbours: devices whose kernels use it, too.
Result<std::unique_ptr<Kernels>> makeCudaKernels(int device, const sparsecollAllocator_t* allocator = nullptr,
                                                 std::span<const int> neighbours = {});

// Kernels of each of the devices may use what the others' memory holds from now on. Errors: InvalidArgument,
// Unsupported (two of them cannot reach each other), CudaError.
Status connectDevices(std::span<const int> devices);

}  // namespace sparsecoll::cuda
