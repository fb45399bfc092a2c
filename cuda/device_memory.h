// Where the memory of a device's kernels comes from: the caller's allocator, where there is one; else a pool of our own
// in the order of a stream of our own; else cudaMalloc, where the device has no pools.
#pragma once

#include <memory>
#include <span>

#include "core/memory.h"

namespace sparsecoll::cuda {

// neighbours: the devices whose kernels use this memory, too; with or without the device itself. The caller's allocator
// has to see to it that they can. Errors: CudaError.
Result<std::shared_ptr<MemorySource>> makeDeviceMemory(int device, std::span<const int> neighbours,
                                                       const sparsecollAllocator_t* allocator);

}  // namespace sparsecoll::cuda
