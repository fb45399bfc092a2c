// Kernels on the memory of one device.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/kernels.h"
#include "core/log.h"
#include "core/memory.h"

namespace sparsecoll::cuda {

// Devices that can be used; 0 also where there is no driver.
int deviceCount();

// The calling thread's current one. Errors: Unsupported (no driver), CudaError.
Result<int> currentDevice();

// A device's PCI bus id, "0000:01:00.0"; empty where it cannot be asked.
Text<32> busIdOf(int device);

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

// How the kernels of some ranks come by memory and let go of it.
struct MemoryTerms {
  const sparsecollAllocator_t* allocator = nullptr;  // nullptr: the device's own
  uint64_t patienceMs = 10000;                       // what is to go back waits no longer for work that uses it
  Logger log;                                        // hears of what did not go back
};

// One for each rank, which is on devices[rank]; all of them reach each other's memory, and all their kernels are
// loaded. Errors: InvalidArgument (no such device), Unsupported (no driver; a device that the library was not built
// for; two devices that cannot reach each other), CudaError, OutOfMemory.
Result<std::vector<std::shared_ptr<Kernels>>> makeCudaKernels(std::span<const int> devices, const MemoryTerms& terms);
// For a rank whose peers are elsewhere.
Result<std::shared_ptr<Kernels>> makeCudaKernels(int device, const MemoryTerms& terms = {});

}  // namespace sparsecoll::cuda
