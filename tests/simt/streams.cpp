#include "tests/simt/streams.h"

#include <algorithm>
#include <unordered_set>

#include "tests/simt/device.h"

namespace simt {
namespace {

struct Handles {
  std::mutex mutex;
  std::unordered_set<const void*> all;
};
Handles& handles() {
  static Handles instance;
  return instance;
}
bool isDefault(cudaStream_t stream) { return !stream || stream == cudaStreamLegacy || stream == cudaStreamPerThread; }

template <class T>
T* make() {
  auto* made = new T;
  countObject(1);
  const std::scoped_lock lock(handles().mutex);
  handles().all.insert(made);
  return made;
}

template <class T>
cudaError_t destroy(T* handle) {
  {
    const std::scoped_lock lock(handles().mutex);
    if (handles().all.erase(handle) == 0) return cudaErrorInvalidResourceHandle;
  }
  countObject(-1);
  delete handle;
  return cudaSuccess;
}

bool knownHandle(const void* handle) {
  const std::scoped_lock lock(handles().mutex);
  return handles().all.contains(handle);
}

// The answer of a call that waits for what a stream did, or asks whether it is done.
cudaError_t settle(cudaStream_t handle, bool waits) {
  if (!known(handle)) return cudaErrorInvalidResourceHandle;
  CUstream_st& stream = resolve(handle);
  const std::scoped_lock lock(stream.mutex);
  if (stream.capture) return forbiddenInCapture(handle);
  if (waits && !stream.drain()) return cudaErrorLaunchFailure;
  if (stream.busy()) return cudaErrorNotReady;
  return broken() ? cudaErrorLaunchFailure : cudaSuccess;
}

cudaError_t settle(CUevent_st& event) {
  const std::scoped_lock lock(event.mutex);
  if (event.capture) return cudaErrorCapturedEvent;
  if (broken()) return cudaErrorLaunchFailure;
  return event.happened->times >= event.asked ? cudaSuccess : cudaErrorNotReady;
}

// The same, as often as it takes.
template <class Settled>
cudaError_t untilDone(Settled settled) {
  cudaError_t result = cudaErrorNotReady;
  const bool ended = await([&] { return (result = settled()) != cudaErrorNotReady; });
  return ended ? result : cudaErrorLaunchFailure;
}

cudaError_t recordEvent(cudaEvent_t event, cudaStream_t handle, unsigned flags) {
  if (!known(event) || !known(handle) || event->device != deviceOf(handle)) return cudaErrorInvalidResourceHandle;
  CUstream_st& stream = resolve(handle);
  const auto now = [event] {
    const std::scoped_lock lock(event->mutex);
    event->recorded = true;
    event->happened->reach(++event->asked);
    event->capture.reset();
    event->tail.clear();
  };
  const std::scoped_lock lock(stream.mutex);
  if (!stream.capture && stream.busy()) {
    const std::scoped_lock eventLock(event->mutex);
    event->capture.reset();
    event->tail.clear();
    event->recorded = true;
    stream.add([happened = event->happened, asked = ++event->asked] { happened->reach(asked); });
    return cudaSuccess;
  }
  if (!stream.capture || flags == cudaEventRecordExternal) return submit(handle, now);
  if (!stream.capture->valid) return cudaErrorStreamCaptureInvalidated;
  const std::scoped_lock eventLock(event->mutex);
  event->capture = stream.capture;
  event->tail = stream.tail;
  return cudaSuccess;
}

cudaError_t waitEvent(cudaStream_t handle, cudaEvent_t event, unsigned flags) {
  if (!known(event) || !known(handle)) return cudaErrorInvalidResourceHandle;
  CUstream_st& stream = resolve(handle);
  const std::scoped_lock lock(stream.mutex);
  const std::scoped_lock eventLock(event->mutex);
  if (!event->capture) {
    // A graph could not wait again for what was recorded outside.
    if (stream.capture) return flags != cudaEventWaitExternal ? cudaErrorStreamCaptureIsolation : cudaSuccess;
    if (event->happened->times >= event->asked) return cudaSuccess;
    const auto ready = [happened = event->happened, asked = event->asked] { return happened->times >= asked; };
    return submitWhen(handle, ready, [] {});
  }
  if (!event->capture->valid) return cudaErrorStreamCaptureInvalidated;
  if (stream.capture && stream.capture != event->capture) return cudaErrorStreamCaptureMerge;
  if (!stream.capture) {
    if (isDefault(handle)) return cudaErrorStreamCaptureImplicit;
    stream.capture = event->capture;
    stream.capture->streams.push_back(handle);
    stream.tail.clear();
  }
  for (cudaGraphNode_t node : event->tail) {
    if (std::find(stream.tail.begin(), stream.tail.end(), node) == stream.tail.end()) stream.tail.push_back(node);
  }
  return cudaSuccess;
}

}  // namespace

bool known(cudaStream_t stream) { return isDefault(stream) || knownHandle(stream); }
bool known(cudaEvent_t event) { return knownHandle(event); }

CUstream_st& resolve(cudaStream_t stream) {
  static CUstream_st legacy[kMostDevices];
  thread_local CUstream_st ofThread[kMostDevices];
  if (!isDefault(stream)) return *stream;
  return (stream == cudaStreamPerThread ? ofThread : legacy)[currentDevice()];
}
int deviceOf(cudaStream_t stream) { return isDefault(stream) ? currentDevice() : stream->device; }

bool capturing(cudaStream_t stream) { return resolve(stream).capture != nullptr; }

cudaError_t forbiddenInCapture(cudaStream_t stream) {
  resolve(stream).capture->valid = false;
  return cudaErrorStreamCaptureUnsupported;
}

cudaError_t submitWhen(cudaStream_t handle, std::function<bool()> ready, std::function<void()> run) {
  if (broken()) return cudaErrorLaunchFailure;
  if (!known(handle)) return cudaErrorInvalidResourceHandle;
  CUstream_st& stream = resolve(handle);
  const std::scoped_lock lock(stream.mutex);
  if (stream.capture) {
    if (!stream.capture->valid) return cudaErrorStreamCaptureInvalidated;
    record(stream, std::move(run), std::move(ready));
    return cudaSuccess;
  }
  if (!stream.busy() && ready()) {
    run();
  } else {
    stream.add(std::move(run), std::move(ready));
  }
  return cudaSuccess;
}

bool await(const std::function<bool()>& ready) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(patienceMilliseconds());
  while (!ready()) {
    if (std::chrono::steady_clock::now() > end) {
      report(Misuse::deadlock, "a stream waited in vain for a value in memory");
      return false;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  return true;
}

}  // namespace simt

using simt::finish;

cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithPriority(stream, 0, 0); }
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  SIMT_ENTER();
  if (!stream || flags > cudaStreamNonBlocking) return finish(cudaErrorInvalidValue);
  *stream = simt::make<CUstream_st>();
  (*stream)->flags = flags;
  (*stream)->device = simt::currentDevice();
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  SIMT_ENTER();
  if (const cudaError_t error = cudaStreamCreateWithFlags(stream, flags)) return error;
  (*stream)->priority = priority;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  SIMT_ENTER();
  return finish(simt::destroy(stream));
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  SIMT_ENTER();
  return finish(simt::settle(stream, true));
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  SIMT_ENTER();
  return finish(simt::settle(stream, false));
}
cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags) {
  SIMT_ENTER();
  if (!simt::known(stream)) return finish(cudaErrorInvalidResourceHandle);
  *flags = simt::resolve(stream).flags;
  return cudaSuccess;
}
cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  SIMT_ENTER();
  if (!simt::known(stream)) return finish(cudaErrorInvalidResourceHandle);
  *priority = simt::resolve(stream).priority;
  return cudaSuccess;
}
cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device) {
  SIMT_ENTER();
  if (!simt::known(stream)) return finish(cudaErrorInvalidResourceHandle);
  *device = simt::deviceOf(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  SIMT_ENTER();
  return finish(simt::waitEvent(stream, event, flags));
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  SIMT_ENTER();
  if (!function) return finish(cudaErrorInvalidValue);
  return finish(simt::submit(stream, [=] { function(data); }));
}
cudaError_t cudaDeviceSynchronize() {
  SIMT_ENTER();
  if (simt::captureForbids()) return finish(cudaErrorStreamCaptureUnsupported);
  simt::Worker::drainAll();
  return finish(simt::broken() ? cudaErrorLaunchFailure : cudaSuccess);
}

cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  SIMT_ENTER();
  if (!event) return finish(cudaErrorInvalidValue);
  *event = simt::make<CUevent_st>();
  (*event)->flags = flags;
  (*event)->device = simt::currentDevice();
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  SIMT_ENTER();
  return finish(simt::destroy(event));
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  SIMT_ENTER();
  return finish(simt::recordEvent(event, stream, cudaEventRecordDefault));
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  SIMT_ENTER();
  return finish(simt::recordEvent(event, stream, flags));
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  SIMT_ENTER();
  if (!simt::known(event)) return finish(cudaErrorInvalidResourceHandle);
  if (simt::captureForbids()) return finish(cudaErrorStreamCaptureUnsupported);
  return finish(simt::settle(*event));
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  SIMT_ENTER();
  if (!simt::known(event)) return finish(cudaErrorInvalidResourceHandle);
  if (simt::captureForbids()) return finish(cudaErrorStreamCaptureUnsupported);
  return finish(simt::untilDone([=] { return simt::settle(*event); }));
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  SIMT_ENTER();
  if (!milliseconds) return finish(cudaErrorInvalidValue);
  for (cudaEvent_t event : {begin, end}) {
    if (!simt::known(event) || !event->recorded || (event->flags & cudaEventDisableTiming)) {
      return finish(cudaErrorInvalidResourceHandle);
    }
  }
  if (begin->device != end->device) return finish(cudaErrorInvalidResourceHandle);
  for (cudaEvent_t event : {begin, end})
    if (const cudaError_t state = simt::settle(*event)) return finish(state);
  const std::chrono::nanoseconds passed(end->happened->when - begin->happened->when);
  *milliseconds = std::chrono::duration<float, std::milli>(passed).count();
  return cudaSuccess;
}
