#include "cuda/device_context.h"

#include "cuda/cuda_kernels.h"

namespace sparsecoll::cuda {

Result<DeviceContext> DeviceContext::make(int ordinal) {
  if (deviceCount() == 0) return unsupported("there is no device, or no driver for it");
  if (ordinal < 0 || ordinal >= deviceCount())
    return fail(sparsecollInvalidArgument, "device {} of {} devices", ordinal, deviceCount());
  DeviceContext context;
  context.ordinal_ = ordinal;
  int processors = 0;
  const cudaError_t error = taken(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, ordinal));
  if (error != cudaSuccess) return fail(sparsecollCudaError, "device {}: {}", ordinal, cudaGetErrorString(error));
  context.processors_ = static_cast<uint32_t>(processors);
  return context;
}

void DeviceContext::noteFailure(const char* name, uint64_t size, cudaError_t error) {
  failure_ = fail(sparsecollCudaError, "{} over {} elements on device {}: {}", name, size, ordinal_,
                  cudaGetErrorString(error));
}

}  // namespace sparsecoll::cuda
