// Steps captured in graphs, one graph a rank, and replayed. For tests on devices, emulated or real.
#pragma once

#include <cuda_runtime.h>

#include <memory>
#include <vector>

#include "tests/support/group.h"

namespace sparsecoll::test {

// A device is the current one of a test's thread for as long as this lives; -1 leaves it alone.
class CurrentDevice {
 public:
  explicit CurrentDevice(int device) {
    if (device < 0 || cudaGetDevice(&before_) != cudaSuccess) return;
    if (cudaSetDevice(device) != cudaSuccess) before_ = -1;
  }
  ~CurrentDevice() {
    if (before_ >= 0) (void)cudaSetDevice(before_);
  }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  int before_ = -1;
};

// A stream of its own for every rank, on the rank's device.
class RankStreams {
 public:
  explicit RankStreams(int ranks, const Devices& devices = 0) {
    for (int rank = 0; rank < ranks; ++rank) {
      const CurrentDevice current(devices.of(rank));
      (void)cudaStreamCreateWithFlags(&streams_.emplace_back(nullptr), cudaStreamNonBlocking);
    }
  }
  ~RankStreams() {
    for (cudaStream_t stream : streams_) (void)cudaStreamDestroy(stream);
  }
  RankStreams(const RankStreams&) = delete;
  RankStreams& operator=(const RankStreams&) = delete;
  cudaStream_t operator[](int rank) const { return streams_[static_cast<size_t>(rank)]; }

 private:
  std::vector<cudaStream_t> streams_;
};

// Captures what enqueue() does on the stream, and brings the graph to the device: a first launch does that, too, but
// not beside graphs that wait there already. *exec is nullptr if it fails, or the capture does.
template <class Enqueue>
sparsecollResult_t captureGraph(cudaStream_t stream, cudaGraphExec_t* exec, Enqueue enqueue) {
  *exec = nullptr;
  if (cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) != cudaSuccess) return sparsecollCudaError;
  const sparsecollResult_t result = enqueue();
  cudaGraph_t graph = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(stream, &graph);
  if (result != sparsecollSuccess) {
    if (ended == cudaSuccess) (void)cudaGraphDestroy(graph);
    return result;
  }
  if (ended != cudaSuccess) return sparsecollCudaError;
  cudaError_t made = cudaGraphInstantiate(exec, graph, 0);
  (void)cudaGraphDestroy(graph);
  if (made == cudaSuccess) made = cudaGraphUpload(*exec, stream);
  if (made == cudaSuccess) made = cudaStreamSynchronize(stream);
  return made == cudaSuccess ? sparsecollSuccess : sparsecollCudaError;
}

// One graph a rank.
class RankGraphs {
 public:
  explicit RankGraphs(int ranks) : execs_(static_cast<size_t>(ranks), nullptr) {}
  ~RankGraphs() {
    for (cudaGraphExec_t exec : execs_)
      if (exec != nullptr) (void)cudaGraphExecDestroy(exec);
  }
  RankGraphs(const RankGraphs&) = delete;
  RankGraphs& operator=(const RankGraphs&) = delete;
  cudaGraphExec_t& operator[](int rank) { return execs_[static_cast<size_t>(rank)]; }

 private:
  std::vector<cudaGraphExec_t> execs_;
};

}  // namespace sparsecoll::test
