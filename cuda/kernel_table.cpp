#include "cuda/kernel_table.h"

#include <mutex>
#include <set>

#include "core/kernel_table.h"
#include "cuda/objects.h"

namespace sparsecoll::cuda {

Status loadKernels(int device) {
  static std::mutex mutex;
  static std::set<int> loaded;
  const std::lock_guard lock(mutex);
  if (loaded.contains(device)) return {};
  for (const void* const kernel : listedKernels()) {
    cudaFuncAttributes attributes{};
    const cudaError_t error = taken(cudaFuncGetAttributes(&attributes, kernel));
    if (error == cudaErrorNoKernelImageForDevice || error == cudaErrorInvalidDeviceFunction)
      return unsupported("this library was not built for a device like device {}", device);
    if (error != cudaSuccess)
      return fail(sparsecollCudaError, "kernels for device {}: {}", device, cudaGetErrorString(error));
  }
  loaded.insert(device);
  return {};
}

}  // namespace sparsecoll::cuda
