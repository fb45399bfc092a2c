#include "tests/simt/device.h"

#include <cstdio>
#include <cstring>
#include <set>
#include <string_view>

#include "tests/simt/streams.h"

namespace simt {
namespace {

std::atomic<int> devices{1};
std::atomic<bool> pools{true}, peerAccess{true};
thread_local int deviceOfThread = 0;

struct Attribute {
  cudaDeviceAttr name;
  int value;
};
constexpr Attribute kAttributes[] = {
    {cudaDevAttrMaxThreadsPerBlock, kThreadsPerBlock},
    {cudaDevAttrMaxGridDimX, 0x7fffffff},
    {cudaDevAttrMaxSharedMemoryPerBlock, kSharedPerBlock},
    {cudaDevAttrWarpSize, warpSize},
    {cudaDevAttrMaxRegistersPerBlock, 65536},
    {cudaDevAttrMultiProcessorCount, kMultiprocessors},
    {cudaDevAttrIntegrated, 0},
    {cudaDevAttrCanMapHostMemory, 1},
    {cudaDevAttrGlobalMemoryBusWidth, 5120},
    {cudaDevAttrL2CacheSize, kL2Bytes},
    {cudaDevAttrMaxThreadsPerMultiProcessor, kThreadsPerMultiprocessor},
    {cudaDevAttrUnifiedAddressing, 1},
    {cudaDevAttrComputeCapabilityMajor, 9},
    {cudaDevAttrComputeCapabilityMinor, 0},
    {cudaDevAttrMaxSharedMemoryPerMultiprocessor, kSharedPerMultiprocessor},
    {cudaDevAttrHostNativeAtomicSupported, 0},
    {cudaDevAttrPageableMemoryAccess, 0},
    {cudaDevAttrConcurrentManagedAccess, 1},
    {cudaDevAttrCanUseHostPointerForRegisteredMem, 1},
    {cudaDevAttrCooperativeLaunch, 0},
    {cudaDevAttrMaxSharedMemoryPerBlockOptin, kSharedPerBlockOptin},
    {cudaDevAttrMaxBlocksPerMultiprocessor, kBlocksPerMultiprocessor},
    {cudaDevAttrMaxPersistingL2CacheSize, 0},
    {cudaDevAttrReservedSharedMemoryPerBlock, kSharedReserved},
};

struct EntryPoint {
  std::string_view name;
  void* function;
};
const EntryPoint kEntryPoints[] = {
    {"cuStreamWaitValue32", reinterpret_cast<void*>(&cuStreamWaitValue32)},
    {"cuStreamWaitValue64", reinterpret_cast<void*>(&cuStreamWaitValue64)},
    {"cuStreamWriteValue32", reinterpret_cast<void*>(&cuStreamWriteValue32)},
    {"cuStreamWriteValue64", reinterpret_cast<void*>(&cuStreamWriteValue64)},
    {"cuStreamBatchMemOp", reinterpret_cast<void*>(&cuStreamBatchMemOp)},
};

bool isDevice(int device) { return device >= 0 && device < devices; }

cudaError_t entryPoint(const char* symbol, void** function, cudaDriverEntryPointQueryResult* status) {
  if (!symbol || !function) return cudaErrorInvalidValue;
  *function = nullptr;
  for (const EntryPoint& point : kEntryPoints) {
    if (point.name == symbol) *function = point.function;
  }
  if (status) *status = *function ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return *function || status ? cudaSuccess : cudaErrorSymbolNotFound;
}

}  // namespace

int currentDevice() { return deviceOfThread; }
void setDevices(int count) { devices = min(count, kMostDevices); }
void setPools(bool supported) { pools = supported; }
void setPeerAccess(bool possible) { peerAccess = possible; }

}  // namespace simt

using simt::finish;

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
#define SIMT_NAME(name, number, text) \
  case cudaError##name:               \
    return "cudaError" #name;
    SIMT_ERRORS(SIMT_NAME)
#undef SIMT_NAME
    case cudaSuccess:
      return "cudaSuccess";
  }
  return "unrecognized error code";
}
const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
#define SIMT_TEXT(name, number, text) \
  case cudaError##name:               \
    return text;
    SIMT_ERRORS(SIMT_TEXT)
#undef SIMT_TEXT
    case cudaSuccess:
      return "no error";
  }
  return "unrecognized error code";
}
cudaError_t cudaGetLastError() { return simt::takeLast(false); }
cudaError_t cudaPeekAtLastError() { return simt::takeLast(true); }
cudaError_t cudaRuntimeGetVersion(int* version) {
  SIMT_ENTER();
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  SIMT_ENTER();
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  SIMT_ENTER();
  if (!count) return finish(cudaErrorInvalidValue);
  *count = simt::devices;
  return finish(*count > 0 ? cudaSuccess : cudaErrorNoDevice);
}
cudaError_t cudaSetDevice(int device) {
  SIMT_ENTER();
  if (!simt::isDevice(device)) return finish(cudaErrorInvalidDevice);
  simt::deviceOfThread = device;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  SIMT_ENTER();
  if (!device) return finish(cudaErrorInvalidValue);
  *device = simt::deviceOfThread;
  return cudaSuccess;
}
cudaError_t cudaDeviceReset() {
  SIMT_ENTER();
  simt::clearErrors();
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  SIMT_ENTER();
  if (!value) return finish(cudaErrorInvalidValue);
  if (!simt::isDevice(device)) return finish(cudaErrorInvalidDevice);
  if (attribute == cudaDevAttrMemoryPoolsSupported) {
    *value = simt::pools;
    return cudaSuccess;
  }
  for (const auto& known : simt::kAttributes) {
    if (known.name != attribute) continue;
    *value = known.value;
    return cudaSuccess;
  }
  return finish(cudaErrorInvalidValue);
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  SIMT_ENTER();
  if (!properties) return finish(cudaErrorInvalidValue);
  if (!simt::isDevice(device)) return finish(cudaErrorInvalidDevice);
  *properties = {};
  std::strcpy(properties->name, "fibers");
  properties->totalGlobalMem = simt::kMemoryBytes;
  properties->sharedMemPerBlock = simt::kSharedPerBlock;
  properties->sharedMemPerBlockOptin = simt::kSharedPerBlockOptin;
  properties->sharedMemPerMultiprocessor = simt::kSharedPerMultiprocessor;
  properties->warpSize = warpSize;
  properties->maxThreadsPerBlock = simt::kThreadsPerBlock;
  properties->maxThreadsPerMultiProcessor = simt::kThreadsPerMultiprocessor;
  properties->multiProcessorCount = simt::kMultiprocessors;
  properties->major = 9;
  properties->l2CacheSize = simt::kL2Bytes;
  properties->pciBusID = device + 1;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* id, int length, int device) {
  SIMT_ENTER();
  if (!id || length <= 0) return finish(cudaErrorInvalidValue);
  if (!simt::isDevice(device)) return finish(cudaErrorInvalidDevice);
  std::snprintf(id, static_cast<size_t>(length), "0000:%02x:00.0", static_cast<unsigned>(device + 1) & 0xffu);
  return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  SIMT_ENTER();
  if (least) *least = 0;
  if (greatest) *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t* available, size_t* total) {
  SIMT_ENTER();
  if (!available || !total) return finish(cudaErrorInvalidValue);
  *total = simt::kMemoryBytes;
  *available = simt::kMemoryBytes - min(simt::kMemoryBytes, static_cast<size_t>(simt::liveMemory().bytes));
  return cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  SIMT_ENTER();
  if (!can || !simt::isDevice(device) || !simt::isDevice(peer)) return finish(cudaErrorInvalidDevice);
  *can = device != peer && simt::peerAccess;
  return cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned) {
  SIMT_ENTER();
  if (!simt::isDevice(peer) || peer == simt::deviceOfThread) return finish(cudaErrorInvalidDevice);
  if (!simt::peerAccess) return finish(cudaErrorPeerAccessUnsupported);
  static std::mutex mutex;
  static std::set<std::pair<int, int>> enabled;
  const std::scoped_lock lock(mutex);
  return finish(enabled.emplace(simt::deviceOfThread, peer).second ? cudaSuccess : cudaErrorPeerAccessAlreadyEnabled);
}
cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  SIMT_ENTER();
  return finish(simt::isDevice(peer) ? cudaSuccess : cudaErrorInvalidDevice);
}
cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** function, unsigned long long,
                                    cudaDriverEntryPointQueryResult* status) {
  SIMT_ENTER();
  return finish(simt::entryPoint(symbol, function, status));
}
cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* status) {
  SIMT_ENTER();
  return finish(simt::entryPoint(symbol, function, status));
}
