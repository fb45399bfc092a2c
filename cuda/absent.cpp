// What a library without the CUDA back end says of devices.
#include "cuda/cuda_kernels.h"

namespace sparsecoll::cuda {

int deviceCount() { return 0; }
Result<int> currentDevice() { return unsupported("this build has no CUDA back end"); }
Text<32> busIdOf(int) { return {}; }

OnDevice::OnDevice(int) {}
OnDevice::~OnDevice() = default;

Result<std::vector<std::shared_ptr<Kernels>>> makeCudaKernels(std::span<const int>, const MemoryTerms&) {
  return unsupported("this build has no CUDA back end");
}
Result<std::shared_ptr<Kernels>> makeCudaKernels(int, const MemoryTerms&) {
  return unsupported("this build has no CUDA back end");
}

}  // namespace sparsecoll::cuda
