// Kernels on the memory of one device.
#pragma once

#include <memory>

#include "core/kernels.h"

namespace sparsecoll::cuda {

// Devices that can be used; 0 also where there is no driver.
int deviceCount();

// Errors: InvalidArgument (no such device), CudaError.
Result<std::unique_ptr<Kernels>> makeCudaKernels(int device);

}  // namespace sparsecoll::cuda
