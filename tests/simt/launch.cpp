// Launches, and the operations of streams on values in memory.
#include <algorithm>
#include <atomic>
#include <set>
#include <span>
#include <string_view>
#include <unordered_map>

#include "tests/simt/device.h"
#include "tests/simt/engine.h"
#include "tests/simt/streams.h"

namespace simt {
namespace {

struct Functions {
  std::mutex mutex;
  std::unordered_map<const void*, int> sharedBytes;
  std::set<std::pair<const void*, int>> loaded;  // on which device
};
Functions& functions() {
  static Functions instance;
  return instance;
}

size_t sharedLimit(const void* kernel) {
  const std::scoped_lock lock(functions().mutex);
  const auto found = functions().sharedBytes.find(kernel);
  return found == functions().sharedBytes.end() ? kSharedPerBlock : static_cast<size_t>(found->second);
}

// The first time that a device meets a kernel it loads it, and ends all other work before.
void loadKernel(const void* kernel) {
  {
    const std::scoped_lock lock(functions().mutex);
    if (!functions().loaded.emplace(kernel, currentDevice()).second) return;
  }
  static Counter counter("a kernel is loaded");
  (void)counter.enter();
  (void)Queue::awaitDevice(currentDevice(), "a kernel that had not been loaded waited in vain for its device");
}

cudaError_t check(const cudaLaunchConfig_t& config, const Call& call) {
  const dim3 grid = config.gridDim, block = config.blockDim;
  constexpr unsigned longestZ = 64, highestGrid = 65535;
  const uint64_t threads = static_cast<uint64_t>(block.x) * block.y * block.z;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || threads == 0) return cudaErrorInvalidConfiguration;
  if (threads > kThreadsPerBlock || block.z > longestZ || block.x > kThreadsPerBlock || block.y > kThreadsPerBlock) {
    return cudaErrorInvalidConfiguration;
  }
  if (grid.x > INT32_MAX || grid.y > highestGrid || grid.z > highestGrid) return cudaErrorInvalidConfiguration;
  if (config.dynamicSmemBytes > sharedLimit(call.kernel)) return cudaErrorInvalidValue;
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    const auto id = config.attrs[i].id;
    if (id == cudaLaunchAttributeCooperative || id == cudaLaunchAttributeClusterDimension) return cudaErrorNotSupported;
  }
  return cudaSuccess;
}

template <class T>
bool holds(CUdeviceptr address, T value, unsigned flags) {
  const T seen = std::atomic_ref<T>(*reinterpret_cast<T*>(address)).load(std::memory_order_acquire);
  switch (flags & 3u) {
    case CU_STREAM_WAIT_VALUE_GEQ:
      return static_cast<std::make_signed_t<T>>(seen - value) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ:
      return seen == value;
    case CU_STREAM_WAIT_VALUE_AND:
      return (seen & value) != 0;
    default:
      return static_cast<T>(~(seen | value)) != 0;
  }
}

CUresult resultOf(cudaError_t error) { return static_cast<CUresult>(error); }

template <class T>
CUresult waitValue(CUstream handle, CUdeviceptr address, T value, unsigned flags) {
  const sparsecoll::test::memory::Exempt exempt;
  if (address == 0 || address % sizeof(T) != 0 || !known(handle)) return CUDA_ERROR_INVALID_VALUE;
  const cudaError_t error = submitWhen(
      handle, [=] { return holds<T>(address, value, flags); }, [] {});
  if (error == cudaSuccess && inPool(reinterpret_cast<const void*>(address))) refuseLastNode(handle);
  return resultOf(error);
}

template <class T>
CUresult writeValue(CUstream stream, CUdeviceptr address, T value) {
  const sparsecoll::test::memory::Exempt exempt;
  if (address == 0 || address % sizeof(T) != 0) return CUDA_ERROR_INVALID_VALUE;
  return resultOf(submit(
      stream, [=] { std::atomic_ref<T>(*reinterpret_cast<T*>(address)).store(value, std::memory_order_release); }));
}

}  // namespace

cudaError_t launch(const cudaLaunchConfig_t* config, const Call& call) {
  const sparsecoll::test::memory::Exempt exempt;
  static Counter counter("cudaLaunchKernelEx");
  if (const cudaError_t planted = counter.enter()) return finish(planted);
  if (!config || !call.kernel) return finish(cudaErrorInvalidValue);
  if (insideKernel()) {
    report(Misuse::badCall, "a launch from within a kernel");
    return cudaErrorNotSupported;
  }
  if (const cudaError_t error = check(*config, call)) return finish(error);
  const Grid grid{.blocks = config->gridDim,
                  .threads = config->blockDim,
                  .sharedBytes = config->dynamicSmemBytes,
                  .run = call.run,
                  .arguments = call.arguments};
  if (!known(config->stream) || deviceOf(config->stream) != currentDevice())
    return finish(cudaErrorInvalidResourceHandle);
  loadKernel(call.kernel);
  CUstream_st& stream = resolve(config->stream);
  const std::scoped_lock lock(stream.mutex);
  const bool lags = lagIsWanted() && !stream.capture;
  if (!lags && !stream.capture && isClear(stream, orderOf(stream)))
    return finish(submit(config->stream, [&grid] { runGrid(grid); }));
  const auto run = [grid, lags, kept = call.keep(call.arguments)] {
    if (lags) std::this_thread::sleep_for(kLag);
    Grid own = grid;
    own.arguments = kept.get();
    runGrid(own);
  };
  return finish(submit(config->stream, run, lags));
}

}  // namespace simt

using simt::finish;

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
  SIMT_ENTER();
  if (!function) return finish(cudaErrorInvalidDeviceFunction);
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
  if (value < 0 || value > static_cast<int>(simt::kSharedPerBlockOptin)) return finish(cudaErrorInvalidValue);
  simt::loadKernel(function);
  const std::scoped_lock lock(simt::functions().mutex);
  simt::functions().sharedBytes[function] = value;
  return cudaSuccess;
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* function) {
  SIMT_ENTER();
  if (!attributes || !function) return finish(cudaErrorInvalidValue);
  simt::loadKernel(function);
  *attributes = {};
  attributes->maxThreadsPerBlock = static_cast<int>(simt::kThreadsPerBlock);
  attributes->numRegs = 32;
  attributes->ptxVersion = attributes->binaryVersion = 90;
  attributes->maxDynamicSharedSizeBytes = static_cast<int>(simt::sharedLimit(function));
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function, int threads,
                                                          size_t sharedBytes) {
  SIMT_ENTER();
  if (!blocks || !function || threads <= 0) return finish(cudaErrorInvalidValue);
  simt::loadKernel(function);
  const auto byThreads = static_cast<int>(simt::kThreadsPerMultiprocessor) / threads;
  const auto byShared = static_cast<int>(simt::kSharedPerMultiprocessor / (sharedBytes + simt::kSharedReserved));
  *blocks = threads > static_cast<int>(simt::kThreadsPerBlock) || sharedBytes > simt::sharedLimit(function)
                ? 0
                : min(min(byThreads, byShared), static_cast<int>(simt::kBlocksPerMultiprocessor));
  return cudaSuccess;
}

CUresult cuStreamWaitValue32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags) {
  static simt::Counter counter(__func__);
  if (const cudaError_t planted = counter.enter()) return simt::resultOf(planted);
  return simt::waitValue<uint32_t>(stream, address, value, flags);
}
CUresult cuStreamWaitValue64(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags) {
  static simt::Counter counter(__func__);
  if (const cudaError_t planted = counter.enter()) return simt::resultOf(planted);
  return simt::waitValue<uint64_t>(stream, address, value, flags);
}
CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned) {
  static simt::Counter counter(__func__);
  if (const cudaError_t planted = counter.enter()) return simt::resultOf(planted);
  return simt::writeValue<uint32_t>(stream, address, value);
}
CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned) {
  static simt::Counter counter(__func__);
  if (const cudaError_t planted = counter.enter()) return simt::resultOf(planted);
  return simt::writeValue<uint64_t>(stream, address, value);
}
CUresult cuStreamBatchMemOp(CUstream stream, unsigned count, CUstreamBatchMemOpParams* operations, unsigned flags) {
  static simt::Counter counter(__func__);
  if (const cudaError_t planted = counter.enter()) return simt::resultOf(planted);
  constexpr unsigned kMost = 256;
  if (!operations || count == 0 || count > kMost || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  std::vector<std::function<bool()>> waits;
  bool pooled = false;
  for (const CUstreamBatchMemOpParams& one : std::span(operations, count)) {
    const auto& wait = one.waitValue;
    if (one.operation != CU_STREAM_MEM_OP_WAIT_VALUE_32 || wait.address % sizeof(uint32_t) != 0)
      return CUDA_ERROR_INVALID_VALUE;
    pooled = pooled || simt::inPool(reinterpret_cast<const void*>(wait.address));
    waits.push_back([=] { return simt::holds<uint32_t>(wait.address, wait.value, wait.flags); });
  }
  const auto all = [waits] { return std::ranges::all_of(waits, [](const auto& holds) { return holds(); }); };
  const cudaError_t error = simt::submitWhen(stream, all, [] {});
  if (error == cudaSuccess && pooled) simt::refuseLastNode(stream);
  return simt::resultOf(error);
}
