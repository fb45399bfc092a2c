// Several streams of one communicator, and calls beside steps: what they enqueue is waited for, what fails is told.
#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "tests/device/checks.h"
#include "tests/simt/simt.h"
#include "tests/support/group.h"

using namespace sparsecoll::test;

namespace {

constexpr uint64_t kLength = 700;
constexpr uint64_t kSoonMs = 200;
constexpr auto kLong = std::chrono::seconds(15);  // what is to be over soon is so before this

class OwnStream {
 public:
  OwnStream() { REQUIRE(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking) == cudaSuccess); }
  ~OwnStream() { (void)cudaStreamDestroy(stream_); }
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;
  operator cudaStream_t() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

// Work of the caller's own, which ends when the test says so.
class Gate {
 public:
  Gate() {
    void* word = nullptr;
    REQUIRE(cudaMalloc(&word, 256) == cudaSuccess);
    word_ = static_cast<std::atomic<uint32_t>*>(word);
    word_->store(0);
  }
  ~Gate() {
    open();
    (void)cudaFree(word_);
  }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  void close(cudaStream_t stream) {
    const auto address = static_cast<CUdeviceptr>(reinterpret_cast<uintptr_t>(word_));
    REQUIRE(cuStreamWaitValue32(stream, address, 1, CU_STREAM_WAIT_VALUE_GEQ) == CUDA_SUCCESS);
    closed_.push_back(stream);
  }
  void open() {
    word_->store(1);
    for (cudaStream_t stream : closed_) (void)cudaStreamSynchronize(stream);
    closed_.clear();
  }

 private:
  std::atomic<uint32_t>* word_ = nullptr;
  std::vector<cudaStream_t> closed_;
};

sparsecollConfig_t limits(uint64_t opTimeoutMs, uint64_t abortTimeoutMs) {
  sparsecollConfig_t config = SPARSECOLL_INIT(sparsecollConfig_t);
  config.opTimeoutMs = opTimeoutMs;
  config.abortTimeoutMs = abortTimeoutMs;
  config.logFn = [](void*, sparsecollLogLevel_t, const char*, const char*) {};  // of memory that stays
  return config;
}

// A rank alone, on the emulated device, and a vector for its steps.
struct Alone {
  explicit Alone(const sparsecollConfig_t& config = limits(60'000, 60'000)) : ranks(1, &config, kDevice) {
    REQUIRE(ranks.result() == sparsecollSuccess);
    fillRandom(gradients, 1);
  }
  sparsecollComm_t comm() const { return ranks[0]; }
  sparsecollReducer_t make(const sparsecollParams_t& params = preset("topka", 0.05)) const {
    sparsecollReducer_t reducer = nullptr;
    REQUIRE(sparsecollReducerCreate(&reducer, kLength, sparsecollFloat32, &params, nullptr, comm()) ==
            sparsecollSuccess);
    return reducer;
  }
  sparsecollResult_t run(sparsecollReducer_t reducer, cudaStream_t stream) {
    return sparsecollReducerRun(reducer, gradients[0].data(), outs[0].data(), stream);
  }
  void runAndWait(sparsecollReducer_t reducer, cudaStream_t stream) {
    REQUIRE(run(reducer, stream) == sparsecollSuccess);
    REQUIRE(sparsecollCommWait(comm(), stream, 0) == sparsecollSuccess);
  }
  uint64_t abandoned() const {
    sparsecollStats_t stats = SPARSECOLL_INIT(sparsecollStats_t);
    REQUIRE(sparsecollGetStats(comm(), &stats) == sparsecollSuccess);
    return stats.bytesAbandoned;
  }

  const Ranks ranks;
  std::vector<Elements> gradients{Elements(sparsecollFloat32, kLength)};
  std::vector<Elements> outs{Elements(sparsecollFloat32, kLength), Elements(sparsecollFloat32, kLength)};
};

bool beforeLong(const std::function<void()>& call) {
  const auto begun = std::chrono::steady_clock::now();
  call();
  return std::chrono::steady_clock::now() - begun < kLong;
}

uint64_t copies() { return simt::calls("cudaMemcpyAsync"); }

// Calls call with every one of its copies failing once.
void checkFailedCopies(const std::function<sparsecollResult_t()>& call) {
  const uint64_t before = copies();
  REQUIRE(call() == sparsecollSuccess);
  const uint64_t count = copies() - before;
  CHECK(count > 0);
  for (uint64_t skip = 0; skip < count; ++skip) {
    CAPTURE(skip, count);
    simt::failCall("cudaMemcpyAsync", skip, cudaErrorLaunchFailure);
    CHECK(call() == sparsecollCudaError);
    simt::forgetFailures();
  }
  CHECK(call() == sparsecollSuccess);
}

}  // namespace

TEST_CASE("memory waits for the work on every stream, not for the latest alone") {
  Alone alone(limits(60'000, kSoonMs));
  const OwnStream first, second;
  Gate gate;
  const sparsecollReducer_t one = alone.make(), other = alone.make();
  gate.close(first);
  REQUIRE(alone.run(one, first) == sparsecollSuccess);
  REQUIRE(sparsecollReducerRun(other, alone.gradients[0].data(), alone.outs[1].data(), second) == sparsecollSuccess);
  REQUIRE(sparsecollCommWait(alone.comm(), second, 0) == sparsecollSuccess);
  CHECK(sparsecollReducerDestroy(one) == sparsecollSuccess);
  CHECK(alone.abandoned() > 0);
  gate.open();
  const uint64_t before = alone.abandoned();
  CHECK(sparsecollReducerDestroy(other) == sparsecollSuccess);
  CHECK(alone.abandoned() == before);
  checkEmulation();
}

TEST_CASE("a mark a stream is kept while there is work, not for ever") {
  Alone alone;
  const sparsecollReducer_t reducer = alone.make();
  const uint64_t before = simt::liveObjects();
  for (int times = 0; times < 20; ++times) {
    const OwnStream stream;
    alone.runAndWait(reducer, stream);
  }
  CHECK(simt::liveObjects() <= before + 3);
  CHECK(sparsecollReducerDestroy(reducer) == sparsecollSuccess);
  checkEmulation();
}

TEST_CASE("memory waits for what SetScales and SetDensity have enqueued") {
  for (const bool scales : {true, false}) {
    CAPTURE(scales);
    Alone alone(limits(60'000, kSoonMs));
    const OwnStream stream;
    Gate gate;
    const sparsecollReducer_t reducer = alone.make();
    alone.runAndWait(reducer, stream);
    gate.close(stream);
    CHECK((scales ? sparsecollReducerSetScales(reducer, 0.5, 2) : sparsecollReducerSetDensity(reducer, 0.02)) ==
          sparsecollSuccess);
    CHECK(sparsecollReducerDestroy(reducer) == sparsecollSuccess);
    CHECK(alone.abandoned() > 0);
    gate.open();
    checkEmulation();
  }
}

TEST_CASE("replays on any stream have the scales that were set before") {
  Alone alone(limits(kSoonMs, 60'000));
  const OwnStream stream;
  const sparsecollReducer_t reducer = alone.make();
  cudaGraph_t graph = nullptr;
  REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  REQUIRE(alone.run(reducer, stream) == sparsecollSuccess);
  REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
  CHECK(sparsecollReducerSetScales(reducer, 0.5, 2) == sparsecollSuccess);
  {
    Gate gate;  // a replay elsewhere would not wait for it
    gate.close(stream);
    CHECK(sparsecollReducerSetScales(reducer, 1, 1) == sparsecollTimeout);
    CHECK(sparsecollReducerSetDensity(reducer, 0.02) == sparsecollTimeout);
  }
  CHECK(sparsecollReducerSetScales(reducer, 1, 1) == sparsecollSuccess);
  CHECK(cudaGraphDestroy(graph) == cudaSuccess);
  CHECK(sparsecollReducerDestroy(reducer) == sparsecollSuccess);
  checkEmulation();
}

TEST_CASE("a state is exported and imported whole, or the call fails") {
  Alone alone;
  const sparsecollReducer_t reducer = alone.make();
  alone.runAndWait(reducer, nullptr);
  Blob blob = exported(reducer);
  REQUIRE_FALSE(blob.empty());
  const auto exportAgain = [&] {
    size_t bytes = blob.size();
    return sparsecollReducerExport(reducer, blob.data(), &bytes, nullptr);
  };
  checkFailedCopies(exportAgain);
  checkFailedCopies([&] { return importInto(reducer, blob); });
  CHECK(sparsecollCommAbort(alone.comm()) == sparsecollSuccess);
  checkFailedCopies(exportAgain);
  CHECK(sparsecollReducerDestroy(reducer) == sparsecollSuccess);
  simt::clearErrors();
}

TEST_CASE("Select works on the stream that it is given") {
  Alone alone;
  const OwnStream stream;
  SparseVector selected(sparsecollFloat32, kLength, kLength);
  const sparsecollParams_t params = preset("topka", 0.05);
  const char* const kLegacy = "work on the legacy stream";
  const uint64_t before = simt::calls(kLegacy);
  CHECK(sparsecollSelect(alone.gradients[0].data(), kLength, sparsecollFloat32, &params, selected.view(), alone.comm(),
                         stream) == sparsecollSuccess);
  CHECK(selected.count() == 35);
  CHECK(simt::calls(kLegacy) == before);
  checkEmulation();
}

TEST_CASE("AllReduce waits for its step as long as a step may take, and gives all of its memory back") {
  Alone alone(limits(60'000, kSoonMs));
  const OwnStream stream;
  const sparsecollParams_t params = preset("topka", 0.05);
  Gate gate;
  gate.close(stream);
  std::thread opens([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(3 * kSoonMs));
    gate.open();
  });
  CHECK(sparsecollAllReduce(alone.gradients[0].data(), alone.outs[0].data(), kLength, sparsecollFloat32, &params,
                            alone.comm(), stream) == sparsecollSuccess);
  opens.join();
  CHECK(alone.abandoned() == 0);
  checkEmulation();
}

TEST_CASE("GetStats waits no longer than an operation may, and no step waits for it") {
  const OwnStream stream;
  {
    Alone alone(limits(kSoonMs, 60'000));
    Gate gate;
    const sparsecollReducer_t reducer = alone.make();
    alone.runAndWait(reducer, stream);
    gate.close(stream);
    sparsecollStats_t stats = SPARSECOLL_INIT(sparsecollStats_t);
    CHECK(sparsecollReducerGetStats(reducer, &stats) == sparsecollSuccess);  // what comes behind a step is not its own
    CHECK(stats.opsCompleted == 1);
    REQUIRE(alone.run(reducer, stream) == sparsecollSuccess);
    CHECK(sparsecollReducerGetStats(reducer, &stats) == sparsecollTimeout);
    gate.open();
    CHECK(sparsecollReducerGetStats(reducer, &stats) == sparsecollSuccess);
    CHECK(stats.lastSelected == 35);
    CHECK(sparsecollReducerDestroy(reducer) == sparsecollSuccess);
  }
  {
    Alone alone;
    Gate gate;
    const sparsecollReducer_t reducer = alone.make();
    gate.close(stream);
    REQUIRE(alone.run(reducer, stream) == sparsecollSuccess);
    sparsecollResult_t told = sparsecollInternalError;
    std::thread monitor([&] {
      sparsecollStats_t stats = SPARSECOLL_INIT(sparsecollStats_t);
      told = sparsecollReducerGetStats(reducer, &stats);
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(kSoonMs));
    CHECK(beforeLong([&] { CHECK(alone.run(reducer, stream) == sparsecollSuccess); }));
    gate.open();
    monitor.join();
    CHECK(told == sparsecollSuccess);
    CHECK(sparsecollReducerDestroy(reducer) == sparsecollSuccess);
  }
  checkEmulation();
}
