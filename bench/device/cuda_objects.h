// What belongs to a device, with owners and with exceptions instead of results.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "bench/common/errors.h"

namespace bench {

struct OutOfDeviceMemory : EnvironmentError {
  using EnvironmentError::EnvironmentError;
};

inline void checkCuda(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return;
  (void)cudaGetLastError();  // told here, not by the next call
  const std::string text = std::string(call) + ": " + cudaGetErrorString(error);
  if (error == cudaErrorMemoryAllocation) throw OutOfDeviceMemory(text);
  throw EnvironmentError(text);
}

// Waits for everything. Streams here do not wait for the default one, on which memory is cleared and loaded; and
// loading from ordinary memory may return while the device still has to write.
inline void waitForDevice() { checkCuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize"); }

// Device memory for `count` of T; zeroed.
template <class T>
class DeviceArray {
 public:
  DeviceArray() = default;
  explicit DeviceArray(uint64_t count) : count_(count) {
    if (count == 0) return;
    void* data = nullptr;
    checkCuda(cudaMalloc(&data, count * sizeof(T)), "cudaMalloc");
    data_ = static_cast<T*>(data);
    checkCuda(cudaMemset(data_, 0, count * sizeof(T)), "cudaMemset");
    waitForDevice();
  }
  DeviceArray(DeviceArray&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), count_(std::exchange(other.count_, 0)) {}
  DeviceArray& operator=(DeviceArray&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(count_, other.count_);
    return *this;
  }
  ~DeviceArray() {
    if (data_ != nullptr) (void)cudaFree(data_);
  }

  T* get() const { return data_; }
  uint64_t count() const { return count_; }
  void load(const T* from, uint64_t count) const {
    checkCuda(cudaMemcpy(data_, from, count * sizeof(T), cudaMemcpyDefault), "cudaMemcpy");
    waitForDevice();
  }
  std::vector<T> toHost() const {
    std::vector<T> there(count_);
    checkCuda(cudaMemcpy(there.data(), data_, count_ * sizeof(T), cudaMemcpyDefault), "cudaMemcpy");
    return there;
  }

 private:
  T* data_ = nullptr;
  uint64_t count_ = 0;
};

template <class T>
T onHost(const T* device) {
  T value{};
  checkCuda(cudaMemcpy(&value, device, sizeof(T), cudaMemcpyDefault), "cudaMemcpy");
  return value;
}

class CudaStream {
 public:
  CudaStream() { checkCuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate"); }
  ~CudaStream() { (void)cudaStreamDestroy(stream_); }
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;
  cudaStream_t get() const { return stream_; }
  void wait() const { checkCuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); }

 private:
  cudaStream_t stream_ = nullptr;
};

class CudaEvent {
 public:
  CudaEvent() { checkCuda(cudaEventCreate(&event_), "cudaEventCreate"); }
  CudaEvent(CudaEvent&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  CudaEvent& operator=(CudaEvent&&) = delete;
  ~CudaEvent() {
    if (event_ != nullptr) (void)cudaEventDestroy(event_);
  }
  void record(cudaStream_t stream) const { checkCuda(cudaEventRecord(event_, stream), "cudaEventRecord"); }
  // Both have happened.
  double secondsSince(const CudaEvent& earlier) const {
    float milliseconds = 0;
    checkCuda(cudaEventElapsedTime(&milliseconds, earlier.event_, event_), "cudaEventElapsedTime");
    return static_cast<double>(milliseconds) * 1e-3;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

// Work that was captured once and is launched as often as wanted.
class CudaGraph {
 public:
  template <class Work>
  CudaGraph(cudaStream_t stream, const Work& work) {
    checkCuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    cudaGraph_t graph = nullptr;
    try {
      work();
    } catch (...) {  // the stream is to be of use again
      if (cudaStreamEndCapture(stream, &graph) == cudaSuccess) (void)cudaGraphDestroy(graph);
      (void)cudaGetLastError();
      throw;
    }
    checkCuda(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
    const cudaError_t made = cudaGraphInstantiate(&launchable_, graph, 0);
    (void)cudaGraphDestroy(graph);
    checkCuda(made, "cudaGraphInstantiate");
    // A first launch would do this beside graphs of other ranks that wait already, and then wait for them.
    const cudaError_t there = cudaGraphUpload(launchable_, stream);
    const cudaError_t done = there == cudaSuccess ? cudaStreamSynchronize(stream) : there;
    if (done != cudaSuccess) (void)cudaGraphExecDestroy(std::exchange(launchable_, nullptr));
    checkCuda(done, "cudaGraphUpload");
  }
  CudaGraph(CudaGraph&& other) noexcept : launchable_(std::exchange(other.launchable_, nullptr)) {}
  CudaGraph& operator=(CudaGraph&&) = delete;
  ~CudaGraph() {
    if (launchable_ != nullptr) (void)cudaGraphExecDestroy(launchable_);
  }
  void launch(cudaStream_t stream) const { checkCuda(cudaGraphLaunch(launchable_, stream), "cudaGraphLaunch"); }

 private:
  cudaGraphExec_t launchable_ = nullptr;
};

}  // namespace bench
