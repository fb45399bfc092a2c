#include "tests/simt/streams.h"

#include <algorithm>
#include <deque>
#include <unordered_set>

#include "tests/simt/device.h"

namespace simt {
namespace {

struct Handles {
  std::mutex mutex;
  std::unordered_set<const void*> all;
  std::unordered_set<CUstream_st*> blocking;  // those that order themselves with the legacy stream
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
  if (captureForbids()) return cudaErrorStreamCaptureUnsupported;
  if (waits && !stream.drain()) return cudaErrorLaunchFailure;
  if (stream.busy()) return cudaErrorNotReady;
  return broken() ? cudaErrorLaunchFailure : cudaSuccess;
}

cudaError_t settle(CUevent_st& event) {
  const std::scoped_lock lock(event.mutex);
  if (event.capture) return cudaErrorCapturedEvent;
  if (broken()) return cudaErrorLaunchFailure;
  return event.happened->times >= event.happened->asked ? cudaSuccess : cudaErrorNotReady;
}

// The same, as often as it takes.
template <class Settled>
cudaError_t untilDone(Settled settled) {
  cudaError_t result = cudaErrorNotReady;
  const bool ended = await([&] { return (result = settled()) != cudaErrorNotReady; });
  return ended ? result : cudaErrorLaunchFailure;
}

void forgetCapture(CUevent_st& event) {
  const std::scoped_lock lock(event.mutex);
  event.recorded = true;
  event.capture.reset();
  event.tail.clear();
}

// A node that records the event anew at each launch of the graph, to happen when the launch gets there.
void recordInGraph(CUstream_st& stream, const std::shared_ptr<Happened>& happened) {
  auto asked = std::make_shared<std::deque<uint64_t>>();
  auto mutex = std::make_shared<std::mutex>();
  const auto launched = [=] {
    const std::scoped_lock lock(*mutex);
    asked->push_back(++happened->asked);
  };
  const auto run = [=] {
    const std::scoped_lock lock(*mutex);
    if (asked->empty()) return;
    happened->reach(asked->front());
    asked->pop_front();
  };
  record(stream, run, {}, launched);
}

cudaError_t recordEvent(cudaEvent_t event, cudaStream_t handle, unsigned flags) {
  if (!known(event) || !known(handle) || event->device != deviceOf(handle)) return cudaErrorInvalidResourceHandle;
  CUstream_st& stream = resolve(handle);
  const std::scoped_lock lock(stream.mutex);
  if (!stream.capture) {
    forgetCapture(*event);
    return submit(handle, [happened = event->happened, asked = ++event->happened->asked] { happened->reach(asked); });
  }
  if (!stream.capture->valid) return cudaErrorStreamCaptureInvalidated;
  if (flags == cudaEventRecordExternal) {
    forgetCapture(*event);
    recordInGraph(stream, event->happened);
    return cudaSuccess;
  }
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
    const uint64_t asked = event->happened->asked;
    if (event->happened->times >= asked) return cudaSuccess;
    const auto ready = [happened = event->happened, asked] { return happened->times >= asked; };
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

namespace {

struct DefaultStreams {
  CUstream_st all[kMostDevices];
  DefaultStreams() {
    for (int device = 0; device < kMostDevices; ++device) all[device].device = device;
  }
};
// Never destroyed: what is static in a test may be freed later.
DefaultStreams& legacyStreams() {
  static DefaultStreams& instance = *new DefaultStreams;
  return instance;
}
CUstream_st& legacyStream(int device) { return legacyStreams().all[device]; }
bool isLegacy(const CUstream_st& stream) { return &stream == &legacyStream(stream.device); }

}  // namespace

CUstream_st& resolve(cudaStream_t stream) {
  thread_local DefaultStreams ofThread;
  if (!isDefault(stream)) return *stream;
  return stream == cudaStreamPerThread ? ofThread.all[currentDevice()] : legacyStream(currentDevice());
}
// Streams that wait for the legacy one of their device, and it for them.
std::vector<CUstream_st*> blockingStreams(int device) {
  std::vector<CUstream_st*> found;
  const std::scoped_lock lock(handles().mutex);
  for (CUstream_st* const stream : handles().blocking)
    if (stream->device == device) found.push_back(stream);
  return found;
}

std::function<bool()> orderOf(CUstream_st& stream) {
  std::vector<std::pair<Queue*, uint64_t>> before;
  const auto add = [&](CUstream_st& other) {
    if (other.busy()) before.emplace_back(other.queue, other.last);
  };
  if (isLegacy(stream)) {
    for (CUstream_st* const other : blockingStreams(stream.device)) add(*other);
  } else if ((stream.flags & cudaStreamNonBlocking) == 0) {
    add(legacyStream(stream.device));
  }
  if (before.empty()) return {};
  return [before] { return std::ranges::all_of(before, [](const auto& one) { return one.first->done(one.second); }); };
}

cudaError_t enterLegacy(CUstream_st& stream) {
  if (!isLegacy(stream)) return cudaSuccess;
  static Counter counter("work on the legacy stream");
  (void)counter.enter();
  bool spoils = false;
  for (CUstream_st* const other : blockingStreams(stream.device)) {
    const std::shared_ptr<Capture> capture = other->capture;
    if (!capture) continue;
    capture->valid = false;
    spoils = true;
  }
  return spoils ? cudaErrorStreamCaptureImplicit : cudaSuccess;
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
  if (const cudaError_t error = enterLegacy(stream)) return error;
  auto order = orderOf(stream);
  if (isClear(stream, order) && ready()) {
    run();
    return cudaSuccess;
  }
  if (order) ready = [order = std::move(order), ready = std::move(ready)] { return order() && ready(); };
  stream.add(std::move(run), std::move(ready));
  return cudaSuccess;
}

bool await(const std::function<bool()>& ready) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(patienceMilliseconds());
  const uint64_t givenUp = waitsGivenUp();
  while (!ready()) {
    if (waitsGivenUp() != givenUp) return false;
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
  (void)(*stream)->ownQueue();
  if (flags == cudaStreamDefault) {
    const std::scoped_lock lock(simt::handles().mutex);
    simt::handles().blocking.insert(*stream);
  }
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
  {
    const std::scoped_lock lock(simt::handles().mutex);
    simt::handles().blocking.erase(stream);
  }
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
  if (!simt::Queue::awaitDevice(simt::currentDevice(), "the device was waited for in vain"))
    return finish(cudaErrorLaunchFailure);
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
