// What NCCL still holds on to when the library gives up: graphs that keep ncclCommAbort from returning, and memory that
// a late rank's frames come to.
#include <cuda_runtime.h>

#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>

#include "tests/nccl/nccl_ranks.h"
#include "tests/support/catch.h"
#include "tests/support/replays.h"
#include "transports/nccl/library.h"

using namespace sparsecoll::test;
namespace nccl = sparsecoll::nccl;

namespace {

constexpr uint64_t kLength = 2000;

sparsecollConfig_t configOf(uint64_t opTimeoutMs, uint64_t abortTimeoutMs) {
  sparsecollConfig_t config = SPARSECOLL_INIT(sparsecollConfig_t);
  config.opTimeoutMs = config.initTimeoutMs = opTimeoutMs;
  config.abortTimeoutMs = abortTimeoutMs;
  return config;
}

// Two ranks with a captured step each.
struct Captured {
  explicit Captured(const sparsecollConfig_t& config)
      : ranks(2, &config), group(ranks, kLength, sparsecollFloat32, preset("topka", 0.05)), graphs(2) {
    REQUIRE(group.step() == all(2, sparsecollSuccess));
    REQUIRE(ranks.each([&](int rank) {
      return captureGraph(ranks.stream(rank), &graphs[rank], [&] { return group.run(rank); });
    }) == all(2, sparsecollSuccess));
  }
  void dropGraph(int rank) {
    CHECK(cudaGraphExecDestroy(graphs[rank]) == cudaSuccess);
    graphs[rank] = nullptr;
  }

  NcclRanks ranks;
  NcclGroup group;
  RankGraphs graphs;
};

// A hang ends the test.
void awaitAborts(uint64_t count) {
  while (fake::aborting() != count) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

// Memory of a caller's own, which looks at what is written to pieces that it has got back.
class Watched {
 public:
  sparsecollAllocator_t allocator() {
    auto made = SPARSECOLL_INIT(sparsecollAllocator_t);
    made.user = this;
    made.allocate = [](void*, size_t bytes, sparsecollStream_t) -> void* {
      void* data = nullptr;
      return cudaMalloc(&data, bytes) == cudaSuccess ? data : nullptr;
    };
    made.release = [](void* user, void* data, size_t bytes, sparsecollStream_t) {
      auto& self = *static_cast<Watched*>(user);
      const std::lock_guard lock(self.mutex_);
      std::memset(data, kMark, bytes);
      self.back_[data] = bytes;
    };
    return made;
  }
  uint64_t written() {
    const std::lock_guard lock(mutex_);
    uint64_t count = 0;
    for (const auto& [data, bytes] : back_)
      for (size_t i = 0; i < bytes; ++i) count += static_cast<const unsigned char*>(data)[i] != kMark ? 1 : 0;
    return count;
  }
  ~Watched() {
    for (const auto& [data, bytes] : back_) (void)cudaFree(data);
  }
  Watched() = default;
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;

 private:
  static constexpr unsigned char kMark = 0xab;
  std::mutex mutex_;
  std::map<void*, size_t> back_;
};

}  // namespace

TEST_CASE("a failure is told while graphs live, and NCCL ends with the last of them") {
  Captured captured(configOf(20000, 200));
  fake::plant(0, nccl::kRemoteError);
  CHECK(sparsecollCommWait(captured.ranks[0], captured.ranks.stream(0), 0) == sparsecollRemoteError);
  awaitAborts(1);
  CHECK(captured.group.run(0) == sparsecollRemoteError);
  captured.dropGraph(0);
  awaitAborts(0);
  CHECK(sparsecollCommAbort(captured.ranks[1]) == sparsecollSuccess);
  captured.dropGraph(1);
  awaitAborts(0);
  checkNoMisuse();
}

TEST_CASE("nobody waits for a thread that aborts while graphs live") {
  Captured captured(configOf(20000, 600000));
  const sparsecollComm_t comm = captured.ranks[0];
  sparsecollResult_t aborted = sparsecollInternalError;
  std::thread aborter([&] { aborted = sparsecollCommAbort(comm); });
  awaitAborts(1);
  sparsecollResult_t state = sparsecollSuccess;
  CHECK(sparsecollCommGetAsyncError(comm, &state) == sparsecollSuccess);
  CHECK(state == sparsecollAborted);
  CHECK(sparsecollCommWait(comm, captured.ranks.stream(0), 100) == sparsecollAborted);
  CHECK(captured.group.run(0) == sparsecollAborted);
  CHECK(sparsecollCommAbort(comm) == sparsecollSuccess);
  captured.dropGraph(0);
  aborter.join();
  CHECK(aborted == sparsecollSuccess);
  CHECK(fake::aborting() == 0);
  captured.dropGraph(1);
  checkNoMisuse();
}

TEST_CASE("destroying ends while graphs live") {
  Captured captured(configOf(4000, 200));
  CHECK(captured.ranks.each([&](int rank) { return sparsecollCommDestroy(captured.ranks.release(rank)); }) ==
        all(2, sparsecollSuccess));
  awaitAborts(2);
  for (int rank = 0; rank < 2; ++rank) captured.dropGraph(rank);
  awaitAborts(0);
  checkNoMisuse();
}

TEST_CASE("frames of a rank that comes too late come to no memory that went back") {
  const std::vector<fake::Comm> theirs = fake::makeComms(2, false);
  Watched watched;
  const sparsecollAllocator_t allocator = watched.allocator();
  sparsecollConfig_t configs[] = {configOf(20000, 300), configOf(20000, 300)};
  configs[0].opTimeoutMs = 1500;
  configs[1].opTimeoutMs = 4000;
  configs[0].allocator = &allocator;
  NcclRanks ranks(2, nullptr, [&](int rank, sparsecollComm_t* comm) {
    return sparsecollCommInitNccl(comm, theirs[static_cast<size_t>(rank)], 0, &configs[rank]);
  });
  REQUIRE(ranks.made() == all(2, sparsecollSuccess));
  const sparsecollParams_t params = preset("topka", 0.05);
  sparsecollReducer_t reducer = nullptr;
  CHECK(sparsecollReducerCreate(&reducer, kLength, sparsecollFloat32, &params, nullptr, ranks[0]) == sparsecollTimeout);
  CHECK(sparsecollCommDestroy(ranks.release(0)) == sparsecollSuccess);
  // Rank 0's first frame is still there, and takes rank 1's along; a second one is missed.
  CHECK(sparsecollReducerCreate(&reducer, kLength, sparsecollFloat32, &params, nullptr, ranks[1]) == sparsecollTimeout);
  CHECK(watched.written() == 0);
  CHECK(sparsecollCommDestroy(ranks.release(1)) == sparsecollSuccess);
  REQUIRE(nccl::library().ok());
  for (const fake::Comm comm : theirs) CHECK((*nccl::library())->CommAbort(comm) == nccl::kSuccess);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(watched.written() == 0);
  fake::reset();
}
