#include <algorithm>
#include <atomic>

#include "tests/simt/streams.h"

struct CUgraph_st {
  std::shared_ptr<simt::Nodes> nodes;
};
namespace simt {
struct Replayed {
  std::shared_ptr<Nodes> nodes;
  bool waits = false;  // for values in memory
  std::mutex mutex;
  std::vector<char> done;
};
}  // namespace simt
struct CUgraphExec_st {
  std::shared_ptr<simt::Replayed> replayed;  // outlives the handle while a launch is under way
};

namespace simt {
namespace {

struct Captures {
  std::mutex mutex;
  std::atomic<size_t> active{0};
  std::vector<std::shared_ptr<Capture>> all;
  unsigned long long ids = 0;
};
Captures& captures() {
  static Captures instance;
  return instance;
}
thread_local cudaStreamCaptureMode modeOfThread = cudaStreamCaptureModeGlobal;

bool forbids(const Capture& capture) {
  if (!capture.valid || capture.mode == cudaStreamCaptureModeRelaxed || modeOfThread == cudaStreamCaptureModeRelaxed) {
    return false;
  }
  return capture.thread == std::this_thread::get_id() ||
         (capture.mode == cudaStreamCaptureModeGlobal && modeOfThread == cudaStreamCaptureModeGlobal);
}

// What happens before the nodes, and they themselves.
std::vector<char> historyOf(const std::vector<cudaGraphNode_t>& tail, size_t count) {
  std::vector<char> seen(count, 0);
  std::vector<cudaGraphNode_t> open = tail;
  while (!open.empty()) {
    const cudaGraphNode_t node = open.back();
    open.pop_back();
    if (seen[node->number]) continue;
    seen[node->number] = 1;
    open.insert(open.end(), node->after.begin(), node->after.end());
  }
  return seen;
}

bool joined(const Capture& capture) {
  const std::vector<char> history = historyOf(capture.origin->tail, capture.nodes->size());
  for (cudaStream_t stream : capture.streams) {
    for (cudaGraphNode_t node : stream->tail) {
      if (!history[node->number]) return false;
    }
  }
  return true;
}

cudaError_t begin(cudaStream_t handle, cudaStreamCaptureMode mode) {
  if (!known(handle)) return cudaErrorInvalidResourceHandle;
  CUstream_st& stream = resolve(handle);
  if (&stream != handle) return cudaErrorStreamCaptureUnsupported;
  const std::scoped_lock lock(stream.mutex, captures().mutex);
  if (stream.capture) return cudaErrorIllegalState;
  stream.capture = std::make_shared<Capture>(Capture{.origin = handle,
                                                     .mode = mode,
                                                     .thread = std::this_thread::get_id(),
                                                     .id = ++captures().ids,
                                                     .streams = {handle}});
  stream.tail.clear();
  captures().all.push_back(stream.capture);
  ++captures().active;
  return cudaSuccess;
}

cudaError_t end(cudaStream_t handle, cudaGraph_t* graph) {
  if (!graph) return cudaErrorInvalidValue;
  *graph = nullptr;
  if (!known(handle)) return cudaErrorInvalidResourceHandle;
  const std::scoped_lock lock(resolve(handle).mutex, captures().mutex);
  const std::shared_ptr<Capture> capture = resolve(handle).capture;
  if (!capture) return cudaErrorIllegalState;
  if (capture->origin != handle) return cudaErrorStreamCaptureUnmatched;
  if (capture->mode != cudaStreamCaptureModeRelaxed && capture->thread != std::this_thread::get_id()) {
    return cudaErrorStreamCaptureWrongThread;
  }
  const bool complete = joined(*capture);
  for (cudaStream_t stream : capture->streams) {
    stream->capture.reset();
    stream->tail.clear();
  }
  std::erase(captures().all, capture);
  --captures().active;
  const bool valid = capture->valid;
  capture->valid = false;  // for events that remember it
  if (!valid) return cudaErrorStreamCaptureInvalidated;
  if (!complete) return cudaErrorStreamCaptureUnjoined;
  *graph = new CUgraph_st{capture->nodes};
  countObject(1);
  return cudaSuccess;
}

bool mayRun(const Replayed& exec, const CUgraphNode_st& node) {
  if (exec.done[node.number]) return false;
  for (cudaGraphNode_t before : node.after) {
    if (!exec.done[before->number]) return false;
  }
  return !node.ready || node.ready();
}

// Under a random schedule, graphs that meet others are ahead of them at times, and behind at others.
constexpr uint64_t kPauseEvery = 16;
constexpr auto kPause = std::chrono::milliseconds(2);

// Any order that the edges allow: an edge that the capture lacks shows under a random schedule. Waits for values go
// last, since what they wait for may come from another branch.
void replay(Replayed& exec) {
  const std::scoped_lock lock(exec.mutex);
  const Nodes& nodes = *exec.nodes;
  std::fill(exec.done.begin(), exec.done.end(), char{0});
  uint64_t random = seedOfNextLaunch();
  size_t first = 0;  // all nodes before it are done
  for (size_t left = nodes.size(); left != 0; --left) {
    while (exec.done[first]) ++first;
    CUgraphNode_st* next = nullptr;
    const auto pick = [&] {
      uint64_t candidates = 0;
      next = nullptr;
      for (size_t n = first; n < nodes.size() && !(next && random == 0); ++n) {
        if (!mayRun(exec, *nodes[n])) continue;
        ++candidates;
        random = random * 6364136223846793005u + 2 * (random != 0);
        if (!next || (random != 0 && (random >> 33) % candidates == 0)) next = nodes[n].get();
      }
      return next != nullptr;
    };
    if (!pick() && !await(pick)) return;
    if (exec.waits && random != 0 && (random >> 40) % kPauseEvery == 0) std::this_thread::sleep_for(kPause);
    next->run();
    if (broken()) return;
    exec.done[next->number] = 1;
  }
}

}  // namespace

bool captureForbids() {
  if (captures().active == 0) return false;
  const std::scoped_lock lock(captures().mutex);
  bool any = false;
  for (const auto& capture : captures().all) {
    if (!forbids(*capture)) continue;
    capture->valid = false;
    any = true;
  }
  return any;
}

void record(CUstream_st& stream, std::function<void()> run, std::function<bool()> ready,
            std::function<void()> launched) {
  Nodes& nodes = *stream.capture->nodes;
  nodes.push_back(std::make_unique<CUgraphNode_st>(
      CUgraphNode_st{std::move(run), std::move(ready), std::move(stream.tail), nodes.size(), std::move(launched)}));
  stream.tail = {nodes.back().get()};
}

void refuseLastNode(cudaStream_t handle) {
  CUstream_st& stream = resolve(handle);
  const std::scoped_lock lock(stream.mutex);
  if (stream.capture) stream.tail.back()->refused = true;
}

}  // namespace simt

using simt::finish;

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  SIMT_ENTER();
  return finish(simt::begin(stream, mode));
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  SIMT_ENTER();
  return finish(simt::end(stream, graph));
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  SIMT_ENTER();
  return cudaStreamGetCaptureInfo(stream, status);
}
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t handle, cudaStreamCaptureStatus* status, unsigned long long* id,
                                     cudaGraph_t* graph, const cudaGraphNode_t** dependencies,
                                     const cudaGraphEdgeData** edges, size_t* count) {
  SIMT_ENTER();
  if (!status || graph) return finish(cudaErrorInvalidValue);
  if (!simt::known(handle)) return finish(cudaErrorInvalidResourceHandle);
  CUstream_st& stream = simt::resolve(handle);
  const std::scoped_lock lock(stream.mutex);
  const simt::Capture* capture = stream.capture.get();
  *status = !capture         ? cudaStreamCaptureStatusNone
            : capture->valid ? cudaStreamCaptureStatusActive
                             : cudaStreamCaptureStatusInvalidated;
  if (id && capture) *id = capture->id;
  if (dependencies) *dependencies = stream.tail.data();
  if (edges) *edges = nullptr;
  if (count) *count = stream.tail.size();
  return cudaSuccess;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  SIMT_ENTER();
  if (!mode) return finish(cudaErrorInvalidValue);
  std::swap(*mode, simt::modeOfThread);
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  SIMT_ENTER();
  if (!exec || !graph) return finish(cudaErrorInvalidValue);
  auto replayed = std::make_shared<simt::Replayed>();
  replayed->nodes = graph->nodes;
  replayed->done.resize(graph->nodes->size());
  for (const auto& node : *graph->nodes) replayed->waits = replayed->waits || node->ready;
  *exec = new CUgraphExec_st{std::move(replayed)};
  simt::countObject(1);
  return cudaSuccess;
}
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  SIMT_ENTER();
  if (!graph || !count) return finish(cudaErrorInvalidValue);
  const size_t all = graph->nodes->size();
  if (nodes) {
    for (size_t i = 0; i < std::min(*count, all); ++i) nodes[i] = (*graph->nodes)[i].get();
  }
  *count = all;
  return cudaSuccess;
}
cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream) {
  SIMT_ENTER();
  if (!exec || !simt::known(stream)) return finish(cudaErrorInvalidValue);
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  SIMT_ENTER();
  if (!exec) return finish(cudaErrorInvalidValue);
  const simt::Nodes& nodes = *exec->replayed->nodes;
  if (std::ranges::any_of(nodes, [](const auto& node) { return node->refused; })) return finish(cudaErrorInvalidValue);
  for (const auto& node : nodes)
    if (node->launched) node->launched();
  return finish(simt::submit(
      stream, [replayed = exec->replayed] { simt::replay(*replayed); }, exec->replayed->waits));
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  SIMT_ENTER();
  if (!exec) return finish(cudaErrorInvalidValue);
  delete exec;
  simt::countObject(-1);
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  SIMT_ENTER();
  if (!graph) return finish(cudaErrorInvalidValue);
  delete graph;
  simt::countObject(-1);
  return cudaSuccess;
}
