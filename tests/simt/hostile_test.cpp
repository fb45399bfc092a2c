// The emulated runtime is no kinder than a device's: what waits there waits here, and what is refused there is here.
#include <chrono>
#include <thread>

#include "tests/simt/launcher.h"

namespace simt::test {
namespace {

__global__ void store(uint32_t* to, uint32_t value) { *to = value; }
__global__ void storeOnce(uint32_t* to, uint32_t value) { *to = value; }

class OwnStream {
 public:
  explicit OwnStream(unsigned flags = cudaStreamNonBlocking) {
    REQUIRE(cudaStreamCreateWithFlags(&stream_, flags) == cudaSuccess);
  }
  ~OwnStream() { cudaStreamDestroy(stream_); }
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;
  operator cudaStream_t() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

template <class... Expected, class... Actual>
cudaError_t launchIn(cudaStream_t stream, void (*kernel)(Expected...), Actual... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = config.blockDim = 1;
  config.stream = stream;
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

CUdeviceptr addressOf(uint32_t* word) { return reinterpret_cast<CUdeviceptr>(word); }
void waitFor(cudaStream_t stream, uint32_t* flag) {
  REQUIRE(cuStreamWaitValue32(stream, addressOf(flag), 1, CU_STREAM_WAIT_VALUE_GEQ) == CUDA_SUCCESS);
}

// A word that streams may be looking at.
void set(uint32_t* word, uint32_t value) { std::atomic_ref<uint32_t>(*word).store(value, std::memory_order_release); }

// Raises a flag a while after `body` has begun, and says how far the body was by then.
template <class Body>
bool endsBeforeFlag(uint32_t* flag, Body body) {
  std::atomic<bool> ended{false}, before{false};
  std::thread raiser([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    before = ended.load();
    set(flag, 1);
  });
  body();
  ended = true;
  raiser.join();
  return before;
}

// What a case starts from and leaves behind.
struct Usual {
  const int connections = simt::connections();
  Usual() {
    cudaFuncAttributes attributes{};
    REQUIRE(cudaFuncGetAttributes(&attributes, store) == cudaSuccess);  // loads it
    patience(10'000);
  }
  ~Usual() {
    patience(60'000);
    setConnections(connections);
    clearErrors();
  }
};

}  // namespace

TEST_CASE("a stream that waits holds up those that share its queue, and no other") {
  const Usual usual;
  const Device<uint32_t> words(std::vector<uint32_t>(2));
  for (const int queues : {1, 2}) {
    for (int w = 0; w < 2; ++w) set(words + w, 0);
    setConnections(queues);
    const OwnStream waits, other;
    waitFor(waits, words + 0);
    REQUIRE(launchIn(other, store, words + 1, 7u) == cudaSuccess);
    CHECK(cudaStreamQuery(other) == (queues == 1 ? cudaErrorNotReady : cudaSuccess));
    CHECK(words[1] == (queues == 1 ? 0 : 7));
    set(words + 0, 1);
    CHECK(cudaStreamSynchronize(other) == cudaSuccess);
    CHECK(cudaStreamSynchronize(waits) == cudaSuccess);
    CHECK(words[1] == 7);
  }
  CHECK(errors().empty());
}

TEST_CASE("as many queues as were asked for are drawn, and the variable says so") {
  const Usual usual;
  needConnections(11);
  CHECK(connections() == 11);
  CHECK(std::string(std::getenv("CUDA_DEVICE_MAX_CONNECTIONS")) == "11");
  needConnections(3);
  CHECK(connections() == 11);
}

TEST_CASE("what is freed waits for all of the device, and so does who synchronises it") {
  const Usual usual;
  needConnections(2);
  const Device<uint32_t> flag(std::vector<uint32_t>(1));
  uint32_t* memory = nullptr;
  uint32_t* pinned = nullptr;
  REQUIRE(cudaMalloc(&memory, 4) == cudaSuccess);
  REQUIRE(cudaHostAlloc(&pinned, 4, 0) == cudaSuccess);
  const auto calls = {std::function<void()>([&] { CHECK(cudaFree(memory) == cudaSuccess); }),
                      std::function<void()>([&] { CHECK(cudaFreeHost(pinned) == cudaSuccess); }),
                      std::function<void()>([&] { CHECK(cudaDeviceSynchronize() == cudaSuccess); })};
  for (const auto& call : calls) {
    const OwnStream stream;
    set(flag + 0, 0);
    waitFor(stream, flag);
    CHECK_FALSE(endsBeforeFlag(flag, call));
    CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
  }
  CHECK(errors().empty());
}

TEST_CASE("behind a flag that never rises a call that frees memory ends with patience") {
  const Usual usual;
  const Device<uint32_t> flag(std::vector<uint32_t>(1));
  uint32_t* memory = nullptr;
  REQUIRE(cudaMalloc(&memory, 4) == cudaSuccess);
  patience(30);
  const OwnStream stream;
  waitFor(stream, flag);
  cudaFree(memory);
  CHECK(errors().size() == 1);
  clearErrors();
  CHECK(cudaStreamQuery(stream) == cudaSuccess);
}

TEST_CASE("a kernel's first launch waits for all of its device, unless the kernel was loaded before") {
  const Usual usual;
  needConnections(2);
  const Device<uint32_t> words(std::vector<uint32_t>(2));
  for (const bool isFirst : {true, false}) {
    const OwnStream waits, other;
    set(words + 0, 0);
    waitFor(waits, words + 0);
    const bool before =
        endsBeforeFlag(words, [&] { REQUIRE(launchIn(other, storeOnce, words + 1, 1u) == cudaSuccess); });
    CHECK(before != isFirst);
    CHECK(cudaStreamSynchronize(waits) == cudaSuccess);
  }
}

TEST_CASE("an answer that something is not ready stays as the last error") {
  const Usual usual;
  const Device<uint32_t> flag(std::vector<uint32_t>(1));
  const OwnStream stream;
  waitFor(stream, flag);
  CHECK(cudaStreamQuery(stream) == cudaErrorNotReady);
  CHECK(cudaPeekAtLastError() == cudaErrorNotReady);
  set(flag + 0, 1);
  CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
  CHECK(cudaGetLastError() == cudaErrorNotReady);
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("the legacy stream and blocking streams wait for each other, others wait for neither") {
  const Usual usual;
  needConnections(8);
  const Device<uint32_t> words(std::vector<uint32_t>(4));
  for (const bool legacyFirst : {true, false}) {
    for (int w = 0; w < 4; ++w) set(words + w, 0);
    const OwnStream blocking(cudaStreamDefault), free;
    const cudaStream_t first = legacyFirst ? nullptr : static_cast<cudaStream_t>(blocking);
    const cudaStream_t second = legacyFirst ? static_cast<cudaStream_t>(blocking) : nullptr;
    waitFor(first, words + 0);
    REQUIRE(launchIn(second, store, words + 1, 5u) == cudaSuccess);
    REQUIRE(launchIn(free, store, words + 2, 5u) == cudaSuccess);
    CHECK((words[1] == 0 && words[2] == 5));
    set(words + 0, 1);
    CHECK(cudaStreamSynchronize(second) == cudaSuccess);
    CHECK(words[1] == 5);
  }
  CHECK(errors().empty());
}

TEST_CASE("work on the legacy stream spoils the capture of a blocking stream") {
  const Usual usual;
  const Device<uint32_t> words(std::vector<uint32_t>(1));
  for (const unsigned flags : {cudaStreamDefault, cudaStreamNonBlocking}) {
    const OwnStream captured(flags);
    REQUIRE(cudaStreamBeginCapture(captured, cudaStreamCaptureModeRelaxed) == cudaSuccess);
    const cudaError_t result = launchIn(nullptr, store, words + 0, 1u);
    cudaGraph_t graph = nullptr;
    const cudaError_t ended = cudaStreamEndCapture(captured, &graph);
    CHECK(result == (flags == cudaStreamDefault ? cudaErrorStreamCaptureImplicit : cudaSuccess));
    CHECK(ended == (flags == cudaStreamDefault ? cudaErrorStreamCaptureInvalidated : cudaSuccess));
    if (graph) cudaGraphDestroy(graph);
  }
  cudaGetLastError();
}

TEST_CASE("a capture of the global mode is spoilt by other threads' calls that may synchronise, unless they relax") {
  const Usual usual;
  for (const bool relaxed : {false, true}) {
    const OwnStream captured, other;
    REQUIRE(cudaStreamBeginCapture(captured, cudaStreamCaptureModeGlobal) == cudaSuccess);
    std::thread([&] {
      cudaStreamCaptureMode mode = relaxed ? cudaStreamCaptureModeRelaxed : cudaStreamCaptureModeGlobal;
      REQUIRE(cudaThreadExchangeStreamCaptureMode(&mode) == cudaSuccess);
      CHECK(cudaStreamQuery(other) == (relaxed ? cudaSuccess : cudaErrorStreamCaptureUnsupported));
    }).join();
    cudaGraph_t graph = nullptr;
    CHECK(cudaStreamEndCapture(captured, &graph) == (relaxed ? cudaSuccess : cudaErrorStreamCaptureInvalidated));
    if (graph) cudaGraphDestroy(graph);
  }
  cudaGetLastError();
}

TEST_CASE("an event that a graph records is asked for anew by every launch") {
  const Usual usual;
  const Device<uint32_t> flag(std::vector<uint32_t>(1));
  const OwnStream stream;
  cudaEvent_t event = nullptr;
  REQUIRE(cudaEventCreateWithFlags(&event, cudaEventDisableTiming) == cudaSuccess);
  REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  waitFor(stream, flag);
  CHECK(cudaEventRecordWithFlags(event, stream, cudaEventRecordExternal) == cudaSuccess);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
  REQUIRE(cudaGraphInstantiate(&exec, graph) == cudaSuccess);
  CHECK(cudaEventQuery(event) == cudaSuccess);
  for (int launches = 0; launches < 2; ++launches) {
    set(flag + 0, 0);
    REQUIRE(cudaGraphLaunch(exec, stream) == cudaSuccess);
    CHECK(cudaEventQuery(event) == cudaErrorNotReady);
    set(flag + 0, 1);
    CHECK(cudaEventSynchronize(event) == cudaSuccess);
  }
  CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
  CHECK(cudaGraphExecDestroy(exec) == cudaSuccess);
  CHECK(cudaGraphDestroy(graph) == cudaSuccess);
  CHECK(cudaEventDestroy(event) == cudaSuccess);
  cudaGetLastError();
}

TEST_CASE("several waits in one call are one wait for all of them") {
  const Usual usual;
  const Device<uint32_t> words(std::vector<uint32_t>(3));
  const OwnStream stream;
  CUstreamBatchMemOpParams waits[3] = {};
  for (int w = 0; w < 3; ++w)
    waits[w].waitValue = {CU_STREAM_MEM_OP_WAIT_VALUE_32, addressOf(words + w), {1}, CU_STREAM_WAIT_VALUE_GEQ, 0};
  REQUIRE(cuStreamBatchMemOp(stream, 3, waits, 0) == CUDA_SUCCESS);
  for (int w = 0; w < 3; ++w) {
    CHECK(cudaStreamQuery(stream) == cudaErrorNotReady);
    set(words + w, 1);
  }
  CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
  CHECK(cuStreamBatchMemOp(stream, 257, waits, 0) == CUDA_ERROR_INVALID_VALUE);
  cudaGetLastError();
}

TEST_CASE("a graph that waits for values in a pool's memory is refused when it is launched") {
  const Usual usual;
  const OwnStream stream;
  for (const bool pooled : {false, true}) {
    uint32_t* flag = nullptr;
    REQUIRE((pooled ? cudaMallocAsync(&flag, sizeof *flag, stream) : cudaMalloc(&flag, sizeof *flag)) == cudaSuccess);
    set(flag, 1);
    for (const bool together : {false, true}) {
      REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
      CUstreamBatchMemOpParams wait = {};
      wait.waitValue = {CU_STREAM_MEM_OP_WAIT_VALUE_32, addressOf(flag), {1}, CU_STREAM_WAIT_VALUE_GEQ, 0};
      if (together)
        CHECK(cuStreamBatchMemOp(stream, 1, &wait, 0) == CUDA_SUCCESS);
      else
        waitFor(stream, flag);
      cudaGraph_t graph = nullptr;
      cudaGraphExec_t exec = nullptr;
      REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
      REQUIRE(cudaGraphInstantiate(&exec, graph) == cudaSuccess);
      CHECK(cudaGraphLaunch(exec, stream) == (pooled ? cudaErrorInvalidValue : cudaSuccess));
      CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
      CHECK(cudaGraphExecDestroy(exec) == cudaSuccess);
      CHECK(cudaGraphDestroy(graph) == cudaSuccess);
    }
    CHECK((pooled ? cudaFreeAsync(flag, stream) : cudaFree(flag)) == cudaSuccess);
  }
  cudaGetLastError();
}

}  // namespace simt::test
