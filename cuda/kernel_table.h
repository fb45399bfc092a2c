// The library's kernels on a device (core/kernel_table.h).
#pragma once

#include "core/status.h"

namespace sparsecoll::cuda {

// Loads all of them on the current device, once a process. Errors: Unsupported (the library was not built for a device
// of this kind), CudaError.
Status loadKernels(int device);

}  // namespace sparsecoll::cuda
