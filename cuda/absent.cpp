// What a library without the CUDA back end says of devices.
#include "cuda/cuda_kernels.h"

namespace sparsecoll::cuda {

int deviceCount() { return 0; }

OnDevice::OnDevice(int) {}
OnDevice::~OnDevice() = default;

Result<std::unique_ptr<Kernels>> makeCudaKernels(int, const sparsecollAllocator_t*, std::span<const int>) {
  return unsupported("this build has no CUDA back end");
}

Status connectDevices(std::span<const int>) { return unsupported("this build has no CUDA back end"); }

}  // namespace sparsecoll::cuda
