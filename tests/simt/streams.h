// Streams, events and what is captured from them.
#pragma once

#include <cuda_runtime.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "tests/simt/queue.h"
#include "tests/simt/state.h"

struct CUgraphNode_st {
  std::function<void()> run;
  std::function<bool()> ready;  // empty: always
  std::vector<cudaGraphNode_t> after;
  size_t number;
  std::function<void()> launched = {};  // what a launch of the graph does at once
  bool refused = false;                 // no graph with it is launched
};

namespace simt {

using Nodes = std::vector<std::unique_ptr<CUgraphNode_st>>;

struct Capture {
  cudaStream_t origin;
  cudaStreamCaptureMode mode;
  std::thread::id thread;
  unsigned long long id;
  bool valid = true;
  std::shared_ptr<Nodes> nodes = std::make_shared<Nodes>();
  std::vector<cudaStream_t> streams;
};

// How often an event was recorded, how often the stream got there, and when it did so last.
struct Happened {
  std::atomic<uint64_t> asked{0};
  std::atomic<uint64_t> times{0};
  std::atomic<int64_t> when{0};  // ns

  void reach(uint64_t record) {
    when = std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
    if (times < record) times = record;
  }
};

}  // namespace simt

struct CUstream_st {
  unsigned flags = 0;
  int priority = 0;
  int device = 0;
  std::recursive_mutex mutex;  // work of several OS threads in one stream is serialised, as on a device
  std::shared_ptr<simt::Capture> capture;
  std::vector<cudaGraphNode_t> tail;
  simt::Queue* queue = nullptr;   // which it shares with other streams; taken for the first work
  std::atomic<uint64_t> last{0};  // ticket of what it put there last

  ~CUstream_st() {
    if (queue) queue->give();
  }
  // Whether something of its own is not done.
  bool busy() { return queue && !queue->done(last); }
  // False if patience ended before.
  bool drain() { return !queue || queue->await(last); }
  simt::Queue& ownQueue() {
    if (!queue) queue = &simt::Queue::take(device);
    return *queue;
  }
  void add(std::function<void()> run, std::function<bool()> ready = {}) {
    last = ownQueue().add(std::move(run), std::move(ready));
  }
};

struct CUevent_st {
  unsigned flags = 0;
  int device = 0;
  std::mutex mutex;
  bool recorded = false;
  std::shared_ptr<simt::Happened> happened = std::make_shared<simt::Happened>();
  std::shared_ptr<simt::Capture> capture;
  std::vector<cudaGraphNode_t> tail;
};

namespace simt {

int currentDevice();
bool known(cudaStream_t stream);
bool known(cudaEvent_t event);
// The stream behind a handle that may be one of the default streams, which are the current device's.
CUstream_st& resolve(cudaStream_t stream);
int deviceOf(cudaStream_t stream);
bool capturing(cudaStream_t stream);
// Spoils the capture of the stream.
cudaError_t forbiddenInCapture(cudaStream_t stream);
// Whether a call that may synchronise would disturb a capture; if so, it has.
bool captureForbids();

// Work that the stream is to do waits for this, besides what is before it in its queue: the legacy stream and the
// blocking ones of a device wait for each other. Empty: for nothing. The caller has locked the stream.
std::function<bool()> orderOf(CUstream_st& stream);
// Whether work would begin at once.
inline bool isClear(CUstream_st& stream, const std::function<bool()>& order) {
  return (!stream.queue || stream.queue->idle()) && !order;
}
// Counts work on the legacy stream. Error: a blocking stream of the device is captured, which this spoils.
cudaError_t enterLegacy(CUstream_st& stream);

// Adds a node behind everything in the stream; an empty `run` only joins.
void record(CUstream_st& stream, std::function<void()> run, std::function<bool()> ready = {},
            std::function<void()> launched = {});
// A graph with what the stream has captured last cannot be launched.
void refuseLastNode(cudaStream_t stream);
// Whether it lies in memory of a pool. Graphs that wait for values there are refused when they are launched.
bool inPool(const void* pointer);
// Polls until it holds; false if patience ended before, or waits were given up.
bool await(const std::function<bool()>& ready);
// Work that comes when `ready` holds, which is asked now and then, by any thread; all that is put on the stream later
// waits for it, too.
cudaError_t submitWhen(cudaStream_t stream, std::function<bool()> ready, std::function<void()> run);

// Work for a stream: done at once, or kept for later if the stream is captured or something is before it. apart: it may
// have to wait for other streams, so that the caller does not do it itself.
template <class F>
cudaError_t submit(cudaStream_t handle, F&& work, bool apart = false) {
  if (broken()) return cudaErrorLaunchFailure;
  if (!known(handle)) return cudaErrorInvalidResourceHandle;
  CUstream_st& stream = resolve(handle);
  const std::scoped_lock lock(stream.mutex);
  if (const cudaError_t error = enterLegacy(stream)) return error;
  if (!stream.capture) {
    auto order = orderOf(stream);
    if (!apart && isClear(stream, order)) {
      work();
    } else {
      stream.add(std::forward<F>(work), std::move(order));
    }
    return cudaSuccess;
  }
  if (!stream.capture->valid) return cudaErrorStreamCaptureInvalidated;
  record(stream, std::forward<F>(work));
  return cudaSuccess;
}

}  // namespace simt
