// Calls of the CUDA runtime that do not return before a device has done what they ask for, as the emulation's do: what
// tests look at next is there. The linker puts them in front of the real ones.
#include <cuda_runtime.h>

#include <mutex>

#include "tests/device/emulation.h"

extern "C" {
cudaError_t __real_cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* kernel, void** arguments);
cudaError_t __real_cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t __real_cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream);
cudaError_t __wrap_cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* kernel, void** arguments);
cudaError_t __wrap_cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t __wrap_cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream);
}

namespace {

std::mutex guard;
std::vector<simt::Error> found;

cudaError_t finished(const char* call, cudaError_t state, cudaStream_t stream) {
  if (state == cudaSuccess) state = cudaStreamSynchronize(stream);
  if (state != cudaSuccess) {
    const std::lock_guard lock(guard);
    found.push_back({simt::Misuse::badCall, std::string(call) + ": " + cudaGetErrorString(state)});
  }
  return state;
}

}  // namespace

cudaError_t __wrap_cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* kernel, void** arguments) {
  return finished("cudaLaunchKernelExC", __real_cudaLaunchKernelExC(config, kernel, arguments), config->stream);
}
cudaError_t __wrap_cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  return finished("cudaMemcpyAsync", __real_cudaMemcpyAsync(to, from, bytes, kind, stream), stream);
}
cudaError_t __wrap_cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  return finished("cudaMemsetAsync", __real_cudaMemsetAsync(to, value, bytes, stream), stream);
}

namespace simt {

void schedule(uint64_t) {}
std::vector<Error> errors() {
  const std::lock_guard lock(guard);
  return found;
}
void clearErrors() {
  const std::lock_guard lock(guard);
  found.clear();
}

}  // namespace simt
