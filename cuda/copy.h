#pragma once

#include "cuda/device_context.h"

namespace sparsecoll::cuda {

// Of memory that the device reaches: its own, its neighbours', pinned memory of the host.
void copy(void* to, const void* from, uint64_t bytes, DeviceContext& device, Stream stream);
// The same, where one of the two may be any memory of the host. What is read there has been read when this returns.
void transfer(void* to, const void* from, uint64_t bytes, DeviceContext& device, Stream stream);
void fillZero(void* data, uint64_t bytes, DeviceContext& device, Stream stream);

}  // namespace sparsecoll::cuda
