// The host half: launches. Streams execute at once in the calling thread, except while they are captured.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <tuple>
#include <utility>

#include <simt_api.h>

namespace simt {

// A kernel and its arguments. They lie on the caller's stack; a graph keeps a copy.
struct Call {
  const void* arguments;
  void (*run)(const void* arguments);
  std::shared_ptr<const void> (*keep)(const void* arguments);
  const void* kernel;
};
cudaError_t launch(const cudaLaunchConfig_t* config, const Call& call);

// The bytes of one; false: a test finds something wrong with them (simt::lookAtArguments).
using Argument = std::span<const std::byte>;
bool takes(std::span<const Argument> arguments);

}  // namespace simt

template <class... Expected, class... Actual>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Expected...), Actual&&... arguments) {
  static_assert(sizeof...(Expected) == sizeof...(Actual), "a kernel wants all its arguments");
  using Kept = std::pair<void (*)(Expected...), std::tuple<Expected...>>;
  const Kept kept(kernel, std::tuple<Expected...>(std::forward<Actual>(arguments)...));
  const auto bytesOf = [](const auto&... values) {
    return std::array<simt::Argument, sizeof...(values)>{std::as_bytes(std::span(&values, 1))...};
  };
  if (!simt::takes(std::apply(bytesOf, kept.second))) return cudaErrorInvalidValue;
  return simt::launch(config, {&kept,
                               [](const void* from) {
                                 const auto& [function, values] = *static_cast<const Kept*>(from);
                                 std::apply(function, values);
                               },
                               [](const void* from) -> std::shared_ptr<const void> {
                                 return std::make_shared<const Kept>(*static_cast<const Kept*>(from));
                               },
                               reinterpret_cast<const void*>(kernel)});
}

template <class T>
cudaError_t cudaFuncSetAttribute(T* function, cudaFuncAttribute attribute, int value) {
  return cudaFuncSetAttribute(reinterpret_cast<const void*>(function), attribute, value);
}
template <class T>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, T* function) {
  return cudaFuncGetAttributes(attributes, reinterpret_cast<const void*>(function));
}
template <class T>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, T* function, int threads, size_t sharedBytes) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, reinterpret_cast<const void*>(function), threads,
                                                       sharedBytes);
}
template <class T>
cudaError_t cudaMalloc(T** pointer, size_t bytes) {
  return cudaMalloc(reinterpret_cast<void**>(pointer), bytes);
}
template <class T>
cudaError_t cudaMallocAsync(T** pointer, size_t bytes, cudaStream_t stream) {
  return cudaMallocAsync(reinterpret_cast<void**>(pointer), bytes, stream);
}
template <class T>
cudaError_t cudaMallocFromPoolAsync(T** pointer, size_t bytes, cudaMemPool_t pool, cudaStream_t stream) {
  return cudaMallocFromPoolAsync(reinterpret_cast<void**>(pointer), bytes, pool, stream);
}
template <class T>
cudaError_t cudaMallocHost(T** pointer, size_t bytes, unsigned flags = 0) {
  return cudaHostAlloc(reinterpret_cast<void**>(pointer), bytes, flags);
}
template <class T>
cudaError_t cudaHostAlloc(T** pointer, size_t bytes, unsigned flags) {
  return cudaHostAlloc(reinterpret_cast<void**>(pointer), bytes, flags);
}
template <class T>
cudaError_t cudaHostGetDevicePointer(T** device, void* host, unsigned flags) {
  return cudaHostGetDevicePointer(reinterpret_cast<void**>(device), host, flags);
}
template <class T>
cudaError_t cudaMemcpyToSymbolAsync(T& symbol, const void* from, size_t bytes, size_t offset, cudaMemcpyKind kind,
                                    cudaStream_t stream = nullptr) {
  return cudaMemcpyAsync(reinterpret_cast<char*>(&symbol) + offset, from, bytes, kind, stream);
}
template <class T>
cudaError_t cudaMemcpyToSymbol(T& symbol, const void* from, size_t bytes, size_t offset = 0,
                               cudaMemcpyKind kind = cudaMemcpyHostToDevice) {
  return cudaMemcpy(reinterpret_cast<char*>(&symbol) + offset, from, bytes, kind);
}
