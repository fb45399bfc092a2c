// Capture and replay, and values in memory that streams wait for.
#include <thread>

#include "tests/simt/launcher.h"

namespace simt::test {
namespace {

__global__ void addTo(int* to, int value) { *to += value; }
__global__ void times(int* to, int factor) { *to *= factor; }

cudaError_t launchIn(cudaStream_t stream, void (*kernel)(int*, int), int* to, int value) {
  cudaLaunchConfig_t config{};
  config.stream = stream;
  return cudaLaunchKernelEx(&config, kernel, to, value);
}

struct Streams {
  cudaStream_t first = nullptr, second = nullptr;
  cudaEvent_t fork = nullptr, join = nullptr;
  Streams() {
    REQUIRE(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking) == cudaSuccess);
    REQUIRE(cudaStreamCreateWithPriority(&second, cudaStreamNonBlocking, -1) == cudaSuccess);
    REQUIRE(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming) == cudaSuccess);
    REQUIRE(cudaEventCreateWithFlags(&join, cudaEventDisableTiming) == cudaSuccess);
  }
  ~Streams() {
    cudaEventDestroy(fork);
    cudaEventDestroy(join);
    cudaStreamDestroy(first);
    cudaStreamDestroy(second);
  }
};

cudaGraphExec_t instantiate(cudaGraph_t graph) {
  cudaGraphExec_t exec = nullptr;
  REQUIRE(cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess);
  REQUIRE(cudaGraphDestroy(graph) == cudaSuccess);
  return exec;
}

TEST_CASE("a captured chain runs at every launch of its graph, and not before") {
  const Streams streams;
  const Device<int> value(std::vector<int>{1});
  int host = 0;
  REQUIRE(cudaStreamBeginCapture(streams.first, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  cudaStreamCaptureStatus status{};
  REQUIRE(cudaStreamIsCapturing(streams.first, &status) == cudaSuccess);
  CHECK(status == cudaStreamCaptureStatusActive);
  CHECK(launchIn(streams.first, addTo, value, 2) == cudaSuccess);
  CHECK(launchIn(streams.first, times, value, 10) == cudaSuccess);
  CHECK(cudaMemcpyAsync(&host, value, sizeof host, cudaMemcpyDeviceToHost, streams.first) == cudaSuccess);
  CHECK(cudaMemsetAsync(value, 0, sizeof host, streams.first) == cudaSuccess);
  CHECK(cudaLaunchHostFunc(
            streams.first, [](void* to) { ++*static_cast<int*>(to); }, &host) == cudaSuccess);
  CHECK(value[0] == 1);
  cudaGraph_t graph = nullptr;
  REQUIRE(cudaStreamEndCapture(streams.first, &graph) == cudaSuccess);
  size_t nodes = 0;
  CHECK((cudaGraphGetNodes(graph, nullptr, &nodes) == cudaSuccess && nodes == 5));
  const cudaGraphExec_t exec = instantiate(graph);
  underSchedules([&] {
    value[0] = 1;
    REQUIRE(cudaGraphLaunch(exec, streams.second) == cudaSuccess);
    REQUIRE(host == 31);
    REQUIRE(cudaGraphLaunch(exec, streams.second) == cudaSuccess);
    REQUIRE(host == 21);
  });
  CHECK(cudaGraphExecDestroy(exec) == cudaSuccess);
}

TEST_CASE("an event pulls another stream into the capture, and back") {
  const Streams streams;
  const Device<int> a(std::vector<int>{0}), b(std::vector<int>{0});
  for (const bool joined : {true, false}) {
    REQUIRE(cudaStreamBeginCapture(streams.first, cudaStreamCaptureModeGlobal) == cudaSuccess);
    CHECK(launchIn(streams.first, addTo, a, 1) == cudaSuccess);
    CHECK(cudaEventRecord(streams.fork, streams.first) == cudaSuccess);
    CHECK(cudaStreamWaitEvent(streams.second, streams.fork) == cudaSuccess);
    CHECK(launchIn(streams.second, addTo, b, 1) == cudaSuccess);
    CHECK(cudaEventRecord(streams.join, streams.second) == cudaSuccess);
    if (joined) CHECK(cudaStreamWaitEvent(streams.first, streams.join) == cudaSuccess);
    CHECK(launchIn(streams.first, times, b, 3) == cudaSuccess);
    cudaGraph_t graph = nullptr;
    if (!joined) {
      CHECK(cudaStreamEndCapture(streams.first, &graph) == cudaErrorStreamCaptureUnjoined);
      continue;
    }
    REQUIRE(cudaStreamEndCapture(streams.first, &graph) == cudaSuccess);
    const cudaGraphExec_t exec = instantiate(graph);
    underSchedules([&] {
      a[0] = b[0] = 0;
      REQUIRE(cudaGraphLaunch(exec, nullptr) == cudaSuccess);
      REQUIRE((a[0] == 1 && b[0] == 3));
    });
    CHECK(cudaGraphExecDestroy(exec) == cudaSuccess);
  }
  CHECK(launchIn(streams.second, addTo, a, 1) == cudaSuccess);
  cudaGetLastError();
}

TEST_CASE("a missing edge shows under some schedule") {
  const Streams streams;
  const Device<int> a(std::vector<int>{0});
  REQUIRE(cudaStreamBeginCapture(streams.first, cudaStreamCaptureModeRelaxed) == cudaSuccess);
  CHECK(cudaEventRecord(streams.fork, streams.first) == cudaSuccess);
  CHECK(cudaStreamWaitEvent(streams.second, streams.fork) == cudaSuccess);
  CHECK(launchIn(streams.first, addTo, a, 1) == cudaSuccess);
  CHECK(launchIn(streams.second, times, a, 3) == cudaSuccess);
  CHECK(cudaEventRecord(streams.join, streams.second) == cudaSuccess);
  CHECK(cudaStreamWaitEvent(streams.first, streams.join) == cudaSuccess);
  cudaGraph_t graph = nullptr;
  REQUIRE(cudaStreamEndCapture(streams.first, &graph) == cudaSuccess);
  const cudaGraphExec_t exec = instantiate(graph);
  unsigned early = 0, late = 0;
  underSchedules([&] {
    a[0] = 1;
    REQUIRE(cudaGraphLaunch(exec, streams.first) == cudaSuccess);
    ++(a[0] == 6 ? early : late);
  });
  CHECK((early > 0 && late > 0));
  CHECK(cudaGraphExecDestroy(exec) == cudaSuccess);
}

TEST_CASE("what a capture forbids spoils it") {
  const Streams streams;
  const auto spoiledBy = [&](auto&& call, cudaError_t expected) {
    REQUIRE(cudaStreamBeginCapture(streams.first, cudaStreamCaptureModeGlobal) == cudaSuccess);
    CHECK(call() == expected);
    cudaGraph_t graph = nullptr;
    CHECK(cudaStreamEndCapture(streams.first, &graph) == cudaErrorStreamCaptureInvalidated);
    CHECK(graph == nullptr);
  };
  void* memory = nullptr;
  spoiledBy([&] { return cudaMalloc(&memory, 8); }, cudaErrorStreamCaptureUnsupported);
  spoiledBy([&] { return cudaStreamSynchronize(streams.first); }, cudaErrorStreamCaptureUnsupported);
  spoiledBy([&] { return cudaDeviceSynchronize(); }, cudaErrorStreamCaptureUnsupported);

  CHECK(cudaEventRecord(streams.fork, streams.second) == cudaSuccess);
  REQUIRE(cudaStreamBeginCapture(streams.first, cudaStreamCaptureModeGlobal) == cudaSuccess);
  CHECK(cudaStreamWaitEvent(streams.first, streams.fork) == cudaErrorStreamCaptureIsolation);
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  CHECK(cudaThreadExchangeStreamCaptureMode(&mode) == cudaSuccess);
  CHECK((cudaMalloc(&memory, 8) == cudaSuccess && cudaFree(memory) == cudaSuccess));
  CHECK(cudaThreadExchangeStreamCaptureMode(&mode) == cudaSuccess);
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(streams.first, &graph) == cudaSuccess);
  CHECK(cudaGraphDestroy(graph) == cudaSuccess);
  cudaGetLastError();
}

using Value32 = CUresult (*)(CUstream, CUdeviceptr, cuuint32_t, unsigned);
Value32 entryPoint(const char* name) {
  void* function = nullptr;
  REQUIRE(cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault) == cudaSuccess);
  return reinterpret_cast<Value32>(function);
}

TEST_CASE("streams of two OS threads meet at values in memory, captured or not") {
  needConnections(2);
  const Value32 wait = entryPoint("cuStreamWaitValue32"), write = entryPoint("cuStreamWriteValue32");
  const Device<uint32_t> flags(std::vector<uint32_t>(2));
  for (const bool captured : {false, true}) {
    flags[0] = flags[1] = 0;
    const auto rank = [&](unsigned self) {
      cudaStream_t stream = nullptr;
      cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
      if (captured) cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
      write(stream, reinterpret_cast<CUdeviceptr>(flags + self), 5, CU_STREAM_WRITE_VALUE_DEFAULT);
      wait(stream, reinterpret_cast<CUdeviceptr>(flags + (1 - self)), 4, CU_STREAM_WAIT_VALUE_GEQ);
      if (captured) {
        cudaGraph_t graph = nullptr;
        cudaGraphExec_t exec = nullptr;
        cudaStreamEndCapture(stream, &graph);
        cudaGraphInstantiate(&exec, graph, 0);
        cudaGraphLaunch(exec, stream);
        cudaGraphExecDestroy(exec);
        cudaGraphDestroy(graph);
      }
      cudaStreamSynchronize(stream);
      cudaStreamDestroy(stream);
    };
    std::thread other(rank, 1);
    rank(0);
    other.join();
    CHECK((flags[0] == 5 && flags[1] == 5));
  }
  CHECK(errors().empty());
}

TEST_CASE("a graph that waits does not hold up the caller, and what follows it on its stream waits with it") {
  needConnections(2);
  cudaFuncAttributes attributes{};
  REQUIRE(cudaFuncGetAttributes(&attributes, times) == cudaSuccess);  // loads it: later it would wait for the graph
  const Value32 wait = entryPoint("cuStreamWaitValue32");
  const Device<uint32_t> flag(std::vector<uint32_t>{0});
  const Device<int> value(std::vector<int>{1});
  const Streams streams;
  REQUIRE(cudaStreamBeginCapture(streams.first, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  CHECK(wait(streams.first, reinterpret_cast<CUdeviceptr>(flag + 0), 1, CU_STREAM_WAIT_VALUE_EQ) == CUDA_SUCCESS);
  CHECK(launchIn(streams.first, addTo, value, 2) == cudaSuccess);
  cudaGraph_t graph = nullptr;
  REQUIRE(cudaStreamEndCapture(streams.first, &graph) == cudaSuccess);
  const cudaGraphExec_t exec = instantiate(graph);
  REQUIRE(cudaGraphLaunch(exec, streams.first) == cudaSuccess);
  CHECK(launchIn(streams.first, times, value, 5) == cudaSuccess);
  CHECK(cudaStreamQuery(streams.first) == cudaErrorNotReady);
  CHECK(cudaStreamQuery(streams.second) == cudaSuccess);
  CHECK(cudaGraphExecDestroy(exec) == cudaSuccess);  // the launch under way goes on
  CHECK(cuStreamWriteValue32(streams.second, reinterpret_cast<CUdeviceptr>(flag + 0), 1, 0) == CUDA_SUCCESS);
  CHECK(cudaStreamSynchronize(streams.first) == cudaSuccess);
  CHECK(value[0] == 15);
  CHECK(cudaStreamQuery(streams.first) == cudaSuccess);
  CHECK(errors().empty());
}

TEST_CASE("a value that never comes ends the wait") {
  patience(30);
  const Device<uint32_t> flag(std::vector<uint32_t>(1));
  CHECK(cuStreamWaitValue32(nullptr, reinterpret_cast<CUdeviceptr>(flag + 0), 1, CU_STREAM_WAIT_VALUE_EQ) ==
        CUDA_SUCCESS);
  CHECK(cudaStreamSynchronize(nullptr) == cudaErrorLaunchFailure);
  clearErrors();
  patience(60'000);
}

}  // namespace
}  // namespace simt::test
