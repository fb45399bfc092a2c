// Streams, events and what is captured from them.
#pragma once

#include <cuda_runtime.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/simt/state.h"

struct CUgraphNode_st {
  std::function<void()> run;
  std::function<bool()> ready;  // empty: always
  std::vector<cudaGraphNode_t> after;
  size_t number;
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

// Work of a stream that is not captured and has to wait.
struct Pending {
  std::function<bool()> ready;  // empty: always
  std::function<void()> run;
};

}  // namespace simt

struct CUstream_st {
  unsigned flags = 0;
  int priority = 0;
  int device = 0;
  std::recursive_mutex mutex;  // work of several OS threads in one stream is serialised, as on a device
  std::shared_ptr<simt::Capture> capture;
  std::vector<cudaGraphNode_t> tail;
  std::deque<simt::Pending> pending;
};

struct CUevent_st {
  unsigned flags = 0;
  std::mutex mutex;
  bool recorded = false;
  std::shared_ptr<std::atomic<uint64_t>> reached = std::make_shared<std::atomic<uint64_t>>(0);
  uint64_t asked = 0;  // records so far; they have happened when `reached` is as much
  std::chrono::steady_clock::time_point when;
  std::shared_ptr<simt::Capture> capture;
  std::vector<cudaGraphNode_t> tail;
};

namespace simt {

int currentDevice();
bool known(cudaStream_t stream);
bool known(cudaEvent_t event);
// The stream behind a handle that may be one of the default streams.
CUstream_st& resolve(cudaStream_t stream);
bool capturing(cudaStream_t stream);
// Spoils the capture of the stream.
cudaError_t forbiddenInCapture(cudaStream_t stream);
// Whether a call that may synchronise would disturb a capture; if so, it has.
bool captureForbids();

// Adds a node behind everything in the stream; an empty `run` only joins.
void record(CUstream_st& stream, std::function<void()> run, std::function<bool()> ready = {});
// Polls until it holds; false if patience ended before.
bool await(const std::function<bool()>& ready);
// Runs what is first in a stream as far as it is ready, and says whether nothing is left. Its mutex is held.
bool progress(CUstream_st& stream);
// Whether what comes now into the stream has to be kept.
bool keeps(cudaStream_t stream);
// Work that comes when `ready` holds, which is asked now and then; all that is put on the stream later waits for it,
// too.
cudaError_t submitWhen(cudaStream_t stream, std::function<bool()> ready, std::function<void()> run);

// Work for a stream: done at once, or kept for later if the stream is captured or waits for something.
template <class F>
cudaError_t submit(cudaStream_t handle, F&& work) {
  if (broken()) return cudaErrorLaunchFailure;
  if (!known(handle)) return cudaErrorInvalidResourceHandle;
  CUstream_st& stream = resolve(handle);
  const std::scoped_lock lock(stream.mutex);
  if (!stream.capture) {
    if (progress(stream)) {
      work();
    } else {
      stream.pending.push_back({{}, std::forward<F>(work)});
    }
    return cudaSuccess;
  }
  if (!stream.capture->valid) return cudaErrorStreamCaptureInvalidated;
  record(stream, std::forward<F>(work));
  return cudaSuccess;
}

}  // namespace simt
