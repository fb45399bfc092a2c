// The thread that goes through an engine for streams, with an engine that does what a test says: order, failures, and
// that every stream goes on whatever happens. Without kernels, so that the race checker can look at it.
#include "transports/staged/service.h"

#include <cuda_runtime.h>

#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <new>

#include "host/host_kernels.h"
#include "tests/simt/simt.h"
#include "tests/support/catch.h"
#include "transports/staged.h"

using namespace sparsecoll;
using staged::Job;

namespace {

constexpr uint64_t kFrameBytes = 128;
constexpr uint64_t kPatienceMs = 60000;

// One rank of two; what "the other one" sends is this rank's frame with its sequence turned round.
class ToldEngine final : public Transport {
 public:
  sparsecollTransport_t kind() const override { return sparsecollTransportEngine; }
  int rank() const override { return 0; }
  int ranks() const override { return 2; }
  bool sharesMemory() const override { return false; }
  bool checksumsPayload() const override { return true; }
  Result<std::unique_ptr<FrameWindow>> makeWindow(uint64_t, std::shared_ptr<MemoryBudget>, Kernels*) override {
    return unsupported("windows");
  }
  Status begin(Operation&) override {
    ++begun;
    return {};
  }
  Status round(Operation& operation, std::span<const Outgoing> out, std::span<Incoming> in, Stream) override {
    ++operation.round;
    if (onRound) SC_TRY(onRound(operation));
    std::memcpy(in[0].landing, out[0].frame, kFrameBytes);
    const uint64_t answer = ~readHeader(out[0].frame).sequence;
    std::memcpy(in[0].landing, &answer, sizeof answer);
    return {};
  }
  Status allReduce(Operation&, const DenseArgs&, Stream) override { return {}; }
  void refuse(const Operation&, const Failure&) override { ++refused; }
  void end(const Operation&) override { ++ended; }
  void abort() override { aborted = true; }

  std::function<Status(const Operation&)> onRound;
  std::atomic<int> begun{0}, refused{0}, ended{0};
  std::atomic<bool> aborted{false};
};

class Fixture {
 public:
  Fixture() {
    auto memory = staged::pinnedMemory(0, host::makeHostKernels(host::bestIsa()));
    REQUIRE(memory.ok());
    kernels_ = host::makeHostKernels(host::bestIsa(), *memory);
    auto made = staged::Words::make(*kernels_, nullptr);
    REQUIRE(made.ok());
    words = std::move(*made);
    auto buffer = kernels_->allocate(4 * kFrameBytes, nullptr);
    REQUIRE(buffer.ok());
    pinned_ = std::move(*buffer);
    REQUIRE(cudaMalloc(&device_, 2 * kFrameBytes) == cudaSuccess);
    REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
    service = std::make_unique<staged::Service>(engine, *words);
    service->start();
  }
  ~Fixture() {
    service->abandon(fail(sparsecollAborted, "over"));
    service->stop();
    (void)cudaStreamSynchronize(stream);
    (void)cudaStreamDestroy(stream);
    (void)cudaFree(device_);
    for (const simt::Error& error : simt::errors()) FAIL_CHECK(error.message);
    simt::clearErrors();
  }

  Job& claim(Job::Kind kind) {
    auto job = service->claim(kind, Deadline::in(kPatienceMs));
    REQUIRE(job.ok());
    return **job;
  }
  void begin(uint64_t sequence, uint64_t timeoutMs = kPatienceMs) {
    Job& job = claim(Job::Kind::kBegin);
    job.operation.sequence = sequence;
    job.operation.deadline = Deadline::in(timeoutMs);
    service->post(job);
  }
  void round(uint64_t sequence, bool tells = true) {
    FrameHeader header{sequence, 0, 0, 0, 0, 0, 0};
    std::memset(device_, 0, kFrameBytes);
    std::memcpy(device_, &header, sizeof header);
    Job& job = claim(Job::Kind::kRound);
    job.awaitsStream = true;
    job.out = {{1, pinned_.as<>(), {}}};
    job.in = {{1, pinned_.as<>() + kFrameBytes, kFrameBytes, nullptr, 0}};
    const uint32_t ticket = job.ticket;
    copy(pinned_.as<>(), device_);
    if (tells) REQUIRE(words->tell(ticket, {stream}).ok());
    service->post(job);
    REQUIRE(words->awaitPassed(ticket, {stream}).ok());
    copy(static_cast<std::byte*>(device_) + kFrameBytes, pinned_.as<>() + kFrameBytes);
  }
  void end() { service->post(claim(Job::Kind::kEnd)); }
  void refuse() { service->post(claim(Job::Kind::kRefuse)); }
  // Of what has come, once the stream is done.
  uint64_t answer() const {
    REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
    return readHeader(static_cast<const std::byte*>(device_) + kFrameBytes).sequence;
  }

  ToldEngine engine;
  std::unique_ptr<staged::Words> words;
  std::unique_ptr<staged::Service> service;
  cudaStream_t stream = nullptr;

 private:
  void copy(void* to, const void* from) {
    REQUIRE(cudaMemcpyAsync(to, from, kFrameBytes, cudaMemcpyDefault, stream) == cudaSuccess);
  }

  std::unique_ptr<Kernels> kernels_;
  Buffer pinned_;
  void* device_ = nullptr;
};

}  // namespace

TEST_CASE("rounds go through the engine in order, and streams get what came") {
  Fixture test;
  for (uint64_t sequence = 1; sequence <= 300; ++sequence) {
    test.begin(sequence);
    test.round(sequence);
    test.end();
    if (sequence % 7 == 0) REQUIRE(test.answer() == ~sequence);
    REQUIRE(cudaStreamSynchronize(test.stream) == cudaSuccess);
  }
  CHECK(test.service->idle(Deadline::in(kPatienceMs)));
  CHECK(test.engine.begun == 300);
  CHECK(test.engine.ended == 300);
  CHECK(test.service->health().ok());
}

TEST_CASE("an operation that the ranks mean differently is refused, told once, and the next one goes on") {
  Fixture test;
  test.engine.onRound = [](const Operation& operation) {
    return operation.sequence == 1 ? disagree(1, "order", "another operation") : Status();
  };
  test.begin(1);
  test.round(1);
  CHECK(test.answer() == 0);
  test.round(1);
  CHECK(test.answer() == 0);
  test.refuse();  // the caller has seen it, too
  test.end();
  test.begin(2);
  test.round(2);
  test.end();
  CHECK(test.answer() == ~uint64_t{2});
  CHECK(test.service->idle(Deadline::in(kPatienceMs)));
  CHECK(test.engine.refused == 1);
  CHECK(test.engine.ended == 2);
  CHECK(test.service->health().ok());
  CHECK(test.service->takeNotice().result() == sparsecollMismatch);
  CHECK(test.service->takeNotice().ok());
}

TEST_CASE("a failure of the engine ends the communicator, tells the peers, and lets streams go on") {
  for (const sparsecollResult_t result : {sparsecollTimeout, sparsecollPeerFailed, sparsecollOutOfMemory}) {
    Fixture test;
    test.engine.onRound = [result](const Operation&) { return failBy(1, result, "it went wrong"); };
    test.begin(1);
    test.round(1);
    CHECK(test.answer() == 0);
    test.end();
    test.begin(2);
    test.round(2);
    test.end();
    CHECK(test.answer() == 0);
    CHECK(test.service->idle(Deadline::in(kPatienceMs)));
    CHECK(test.engine.aborted);
    CHECK(test.engine.begun == 1);
    CHECK(test.engine.ended == 1);
    const Status health = test.service->health();
    CHECK(health.result() == (isFatal(result) ? result : sparsecollInternalError));
    CHECK(health.failure().peer == 1);
  }
}

TEST_CASE("a stream that does not come is a Timeout, and whoever abandons ends that wait, too") {
  {
    Fixture test;
    test.begin(1, 30);
    test.round(1, false);
    CHECK(test.answer() == 0);
    CHECK(test.service->health().result() == sparsecollTimeout);
    CHECK(test.engine.aborted);
  }
  for (int trial = 0; trial < 20; ++trial) {
    Fixture test;
    std::array<std::thread, 3> others;
    for (std::thread& other : others)
      other = std::thread([&] {
        std::this_thread::sleep_for(std::chrono::microseconds(50 * trial));
        test.service->abandon(fail(sparsecollAborted, "the communicator was aborted"));
      });
    test.begin(1);
    test.round(1);
    test.round(1, false);
    test.end();
    CHECK(test.answer() == 0);
    for (std::thread& other : others) other.join();
    CHECK(test.service->health().result() == sparsecollAborted);
    CHECK(test.service->idle(Deadline::in(kPatienceMs)));
  }
}

TEST_CASE("jobs wait for room, but not those that end an operation, and after the end they pass") {
  Fixture test;
  test.begin(1);
  test.round(1, false);  // where the thread stays
  size_t posted = 2;
  for (;; ++posted) {
    auto job = test.service->claim(Job::Kind::kRound, Deadline::in(1));
    if (!job.ok()) {
      CHECK(job.takeStatus().result() == sparsecollTimeout);
      break;
    }
    test.service->post(**job);
  }
  CHECK(posted >= 100);
  test.end();
  CHECK_FALSE(test.service->idle(Deadline::in(1)));
  test.service->abandon(fail(sparsecollAborted, "the communicator was aborted"));
  test.service->stop();
  CHECK(test.service->idle(Deadline::in(0)));
  CHECK(test.answer() == 0);
  test.begin(2);
  test.round(2, false);
  CHECK(test.answer() == 0);
}

TEST_CASE("an operation that nobody ends any more is ended when the thread is") {
  Fixture test;
  test.begin(1);
  test.round(1);
  CHECK(test.answer() == ~uint64_t{1});
  CHECK(test.service->idle(Deadline::in(kPatienceMs)));
  CHECK(test.engine.ended == 0);
  test.service->abandon(fail(sparsecollAborted, "the communicator was destroyed"));
  test.service->stop();
  CHECK(test.engine.ended == 1);
  test.end();  // comes too late
  CHECK(test.engine.ended == 1);
}

TEST_CASE("memory that runs out in the engine is a failure like others") {
  Fixture test;
  test.engine.onRound = [](const Operation&) -> Status { throw std::bad_alloc(); };
  test.begin(1);
  test.round(1);
  CHECK(test.answer() == 0);
  test.end();
  CHECK(test.service->idle(Deadline::in(kPatienceMs)));
  CHECK(test.engine.ended == 1);
  CHECK(test.engine.aborted);
  CHECK(test.service->health().result() == sparsecollInternalError);
}
