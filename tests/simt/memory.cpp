#include <cstdlib>
#include <cstring>
#include <mutex>

#include "tests/simt/streams.h"

struct CUmemPoolHandle_st {
  int device;
  uint64_t threshold;
};

namespace simt {
namespace {

constexpr int kGarbage = 0xcb;
constexpr size_t kAlignment = 256;

struct Allocation {
  size_t bytes;
  cudaMemoryType type;
  int device;
  bool owned;
  bool pooled;
};

struct Registry {
  std::mutex mutex;
  std::map<uintptr_t, Allocation> all;
};
// Never destroyed: what a library has left for ever is no leak of the test's.
Registry& registry() {
  static Registry& instance = *new Registry;
  return instance;
}
uintptr_t numberOf(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }

// The allocation that holds the address; the lock is the caller's.
const std::pair<const uintptr_t, Allocation>* find(const void* pointer) {
  auto& all = registry().all;
  auto next = all.upper_bound(numberOf(pointer));
  if (next == all.begin()) return nullptr;
  --next;
  return numberOf(pointer) - next->first < next->second.bytes ? &*next : nullptr;
}

bool onDevice(const void* pointer) {
  const std::scoped_lock lock(registry().mutex);
  const auto* const found = find(pointer);
  return found && found->second.type == cudaMemoryTypeDevice;
}

cudaError_t allocate(void** pointer, size_t bytes, cudaMemoryType type, bool pooled = false) {
  if (!pointer) return cudaErrorInvalidValue;
  *pointer = nullptr;
  if (broken()) return cudaErrorLaunchFailure;
  if (bytes == 0) return cudaSuccess;
  // Exactly as long as asked for, so that the address sanitizer sees the first byte too many.
  void* memory = nullptr;
  if (allocationFails() || posix_memalign(&memory, kAlignment, bytes) != 0) return cudaErrorMemoryAllocation;
  std::memset(memory, kGarbage, bytes);
  const std::scoped_lock lock(registry().mutex);
  registry().all[numberOf(memory)] = {bytes, type, currentDevice(), true, pooled};
  *pointer = memory;
  return cudaSuccess;
}

cudaError_t release(void* pointer, cudaMemoryType type, bool owned) {
  if (!pointer) return cudaSuccess;
  {
    const std::scoped_lock lock(registry().mutex);
    const auto found = registry().all.find(numberOf(pointer));
    if (found == registry().all.end() || found->second.type != type || found->second.owned != owned) {
      return cudaErrorInvalidValue;
    }
    registry().all.erase(found);
  }
  if (owned) std::free(pointer);
  return cudaSuccess;
}

// What is freed may be in use: a device ends all its work first.
void awaitDeviceOf(const void* pointer) {
  int device = 0;
  {
    const std::scoped_lock lock(registry().mutex);
    const auto* const found = find(pointer);
    if (!found) return;
    device = found->second.device;
  }
  (void)Queue::awaitDevice(device, "a call that frees memory waited in vain for its device");
}

// Whether all of it lies in memory that the device reaches.
bool reachable(const void* pointer, size_t bytes) {
  const std::scoped_lock lock(registry().mutex);
  const auto* found = find(pointer);
  return found && numberOf(pointer) - found->first + bytes <= found->second.bytes;
}

cudaError_t checkCopy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  if (broken()) return cudaErrorLaunchFailure;
  if (bytes == 0) return cudaSuccess;
  if (!to || !from) return cudaErrorInvalidValue;
  const bool toDevice = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool fromDevice = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if ((toDevice && !reachable(to, bytes)) || (fromDevice && !reachable(from, bytes))) return cudaErrorInvalidValue;
  return cudaSuccess;
}

cudaError_t copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  if (const cudaError_t error = checkCopy(to, from, bytes, kind)) return error;
  // Memory that the runtime does not know is read and written before the call returns.
  const bool runs = known(stream) && !resolve(stream).capture;
  const bool pageable = runs && !(reachable(to, bytes) && reachable(from, bytes));
  const bool lags = runs && !pageable && lagIsWanted();
  const auto move = [=] {
    if (lags) std::this_thread::sleep_for(kLag);
    std::memmove(to, from, bytes);
  };
  const cudaError_t error = submit(stream, move, lags);
  if (pageable && error == cudaSuccess) resolve(stream).drain();
  return error;
}

}  // namespace

Memory liveMemory() {
  const std::scoped_lock lock(registry().mutex);
  Memory live;
  for (const auto& [address, allocation] : registry().all) {
    live.allocations += allocation.owned;
    live.bytes += allocation.owned ? allocation.bytes : 0;
    live.pinnedBytes += allocation.owned && allocation.type == cudaMemoryTypeHost ? allocation.bytes : 0;
  }
  return live;
}

}  // namespace simt

using simt::finish;

bool simt::inPool(const void* pointer) {
  const std::scoped_lock lock(registry().mutex);
  const auto* const found = find(pointer);
  return found && found->second.pooled;
}

cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  SIMT_ENTER();
  if (simt::captureForbids()) return finish(cudaErrorStreamCaptureUnsupported);
  return finish(simt::allocate(pointer, bytes, cudaMemoryTypeDevice));
}
cudaError_t cudaFree(void* pointer) {
  SIMT_ENTER();
  if (simt::captureForbids()) return finish(cudaErrorStreamCaptureUnsupported);
  simt::awaitDeviceOf(pointer);
  return finish(simt::release(pointer, cudaMemoryTypeDevice, true));
}
cudaError_t cudaMallocAsync(void** pointer, size_t bytes, cudaStream_t stream) {
  SIMT_ENTER();
  if (!simt::known(stream)) return finish(cudaErrorInvalidResourceHandle);
  if (simt::capturing(stream)) return finish(simt::forbiddenInCapture(stream));
  return finish(simt::allocate(pointer, bytes, cudaMemoryTypeDevice, true));
}
cudaError_t cudaMallocFromPoolAsync(void** pointer, size_t bytes, cudaMemPool_t pool, cudaStream_t stream) {
  SIMT_ENTER();
  if (!pool || !simt::known(stream)) return finish(cudaErrorInvalidResourceHandle);
  if (pool->device != simt::currentDevice()) return finish(cudaErrorInvalidDevice);
  if (simt::capturing(stream)) return finish(simt::forbiddenInCapture(stream));
  return finish(simt::allocate(pointer, bytes, cudaMemoryTypeDevice, true));
}
cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream) {
  SIMT_ENTER();
  if (!simt::known(stream)) return finish(cudaErrorInvalidResourceHandle);
  if (simt::capturing(stream)) return finish(simt::forbiddenInCapture(stream));
  if (pointer && !simt::onDevice(pointer)) return finish(cudaErrorInvalidValue);
  return finish(simt::submit(stream, [=] { (void)simt::release(pointer, cudaMemoryTypeDevice, true); }));
}
cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned) {
  SIMT_ENTER();
  if (simt::captureForbids()) return finish(cudaErrorStreamCaptureUnsupported);
  return finish(simt::allocate(pointer, bytes, cudaMemoryTypeHost));
}
cudaError_t cudaFreeHost(void* pointer) {
  SIMT_ENTER();
  if (simt::captureForbids()) return finish(cudaErrorStreamCaptureUnsupported);
  simt::awaitDeviceOf(pointer);
  return finish(simt::release(pointer, cudaMemoryTypeHost, true));
}
cudaError_t cudaHostRegister(void* pointer, size_t bytes, unsigned) {
  SIMT_ENTER();
  if (!pointer || bytes == 0) return finish(cudaErrorInvalidValue);
  const std::scoped_lock lock(simt::registry().mutex);
  if (simt::find(pointer)) return finish(cudaErrorHostMemoryAlreadyRegistered);
  simt::registry().all[simt::numberOf(pointer)] = {bytes, cudaMemoryTypeHost, simt::currentDevice(), false, false};
  return cudaSuccess;
}
cudaError_t cudaHostUnregister(void* pointer) {
  SIMT_ENTER();
  const cudaError_t error = simt::release(pointer, cudaMemoryTypeHost, false);
  return finish(error ? cudaErrorHostMemoryNotRegistered : cudaSuccess);
}
cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned) {
  SIMT_ENTER();
  if (!device || !simt::reachable(host, 1)) return finish(cudaErrorInvalidValue);
  *device = host;
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  SIMT_ENTER();
  if (!attributes) return finish(cudaErrorInvalidValue);
  const std::scoped_lock lock(simt::registry().mutex);
  const auto* found = simt::find(pointer);
  void* const address = const_cast<void*>(pointer);
  if (!found) {
    *attributes = {cudaMemoryTypeUnregistered, -2, nullptr, address};
  } else {
    const auto& allocation = found->second;
    *attributes = {allocation.type, allocation.device, address,
                   allocation.type == cudaMemoryTypeHost ? address : nullptr};
  }
  return cudaSuccess;
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  SIMT_ENTER();
  if (simt::captureForbids()) return finish(cudaErrorStreamCaptureUnsupported);
  return finish(simt::copy(to, from, bytes, kind, nullptr));
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  SIMT_ENTER();
  if (!simt::onDevice(to) || !simt::onDevice(from)) {
    static ::simt::Counter ofTheHost("cudaMemcpyAsync of host memory");
    (void)ofTheHost.enter();
  }
  return finish(simt::copy(to, from, bytes, kind, stream));
}
cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t bytes, cudaStream_t stream) {
  SIMT_ENTER();
  return finish(simt::copy(to, from, bytes, cudaMemcpyDeviceToDevice, stream));
}
cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  SIMT_ENTER();
  if (simt::captureForbids()) return finish(cudaErrorStreamCaptureUnsupported);
  if (bytes != 0 && !simt::reachable(to, bytes)) return finish(cudaErrorInvalidValue);
  return finish(simt::submit(nullptr, [=] { std::memset(to, value, bytes); }));
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  SIMT_ENTER();
  if (bytes != 0 && !simt::reachable(to, bytes)) return finish(cudaErrorInvalidValue);
  return finish(simt::submit(stream, [=] {
    if (bytes != 0) std::memset(to, value, bytes);
  }));
}

namespace {
CUmemPoolHandle_st defaultPool{0, 0};
}
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int) {
  SIMT_ENTER();
  *pool = &defaultPool;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int device) { return cudaDeviceGetDefaultMemPool(pool, device); }
cudaError_t cudaDeviceSetMemPool(int, cudaMemPool_t pool) {
  SIMT_ENTER();
  return finish(pool ? cudaSuccess : cudaErrorInvalidValue);
}
cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* properties) {
  SIMT_ENTER();
  if (!pool || !properties || properties->allocType != cudaMemAllocationTypePinned) {
    return finish(cudaErrorInvalidValue);
  }
  *pool = new CUmemPoolHandle_st{properties->location.id, 0};
  simt::countObject(1);
  return cudaSuccess;
}
cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
  SIMT_ENTER();
  if (!pool || pool == &defaultPool) return finish(cudaErrorInvalidValue);
  delete pool;
  simt::countObject(-1);
  return cudaSuccess;
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  SIMT_ENTER();
  if (!pool || !value) return finish(cudaErrorInvalidValue);
  if (attribute == cudaMemPoolAttrReleaseThreshold) pool->threshold = *static_cast<uint64_t*>(value);
  return cudaSuccess;
}
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  SIMT_ENTER();
  if (!pool || !value) return finish(cudaErrorInvalidValue);
  if (attribute < cudaMemPoolAttrReleaseThreshold) {
    *static_cast<int*>(value) = 1;
  } else {
    *static_cast<uint64_t*>(value) =
        attribute == cudaMemPoolAttrReleaseThreshold ? pool->threshold : simt::liveMemory().bytes;
  }
  return cudaSuccess;
}
cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const cudaMemAccessDesc*, size_t) {
  SIMT_ENTER();
  return finish(pool ? cudaSuccess : cudaErrorInvalidValue);
}
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t) {
  SIMT_ENTER();
  return finish(pool ? cudaSuccess : cudaErrorInvalidValue);
}
