// Calls of the CUDA runtime that do not return before a device has done what they ask for, as the emulation's do: what
// tests look at next is there. The linker puts them in front of the real ones.
#include <cuda_runtime.h>

#include <map>
#include <mutex>

#include "tests/cuda/reachable_memory.h"
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

// The sizes of a kernel's parameters.
const std::vector<size_t>& parametersOf(const void* kernel) {
  const std::lock_guard lock(guard);
  static std::map<const void*, std::vector<size_t>> known;
  const auto [entry, isNew] = known.try_emplace(kernel);
  if (!isNew) return entry->second;
  size_t offset = 0;
  size_t bytes = 0;
  while (cudaFuncGetParamInfo(kernel, entry->second.size(), &offset, &bytes) == cudaSuccess)
    entry->second.push_back(bytes);
  (void)cudaGetLastError();  // of the first one that is not there
  return entry->second;
}

// What a launch that failed may have come upon. It is not looked for before: members that a kernel never reads may hold
// anything, and look like pointers.
void nameUnreachable(const std::vector<size_t>& parameters, void** arguments) {
  std::vector<std::span<const std::byte>> all;
  for (const size_t bytes : parameters) all.emplace_back(static_cast<std::byte*>(arguments[all.size()]), bytes);
  const std::string seen = sparsecoll::test::unreachableIn(all);
  const std::lock_guard lock(guard);
  if (!seen.empty()) found.push_back({simt::Misuse::badCall, seen});
}

}  // namespace

cudaError_t __wrap_cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* kernel, void** arguments) {
  // Asked for while the device still answers. An error that has been there before is the caller's.
  static const std::vector<size_t> unknown;
  const std::vector<size_t>& parameters = cudaPeekAtLastError() == cudaSuccess ? parametersOf(kernel) : unknown;
  const cudaError_t state =
      finished("cudaLaunchKernelExC", __real_cudaLaunchKernelExC(config, kernel, arguments), config->stream);
  if (state != cudaSuccess) nameUnreachable(parameters, arguments);
  return state;
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
