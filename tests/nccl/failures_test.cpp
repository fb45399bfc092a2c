// What goes wrong over NCCL: ranks that do not come, errors that NCCL reports, aborts, ranks that disagree,
// communicators of others, and an NCCL that is not there or too old.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string>

#include "tests/nccl/nccl_ranks.h"
#include "tests/simt/streams.h"
#include "tests/support/catch.h"
#include "transports/nccl/library.h"

using namespace sparsecoll::test;
namespace nccl = sparsecoll::nccl;

namespace {

constexpr uint64_t kLength = 2000;

// Long enough for what ranks do together on a busy machine, short enough to wait for what does not come.
sparsecollConfig_t impatient(uint64_t timeoutMs = 4000) {
  sparsecollConfig_t config = SPARSECOLL_INIT(sparsecollConfig_t);
  config.opTimeoutMs = config.initTimeoutMs = timeoutMs;
  return config;
}

sparsecollResult_t stateOf(sparsecollComm_t comm) {
  sparsecollResult_t state = sparsecollInternalError;
  CHECK(sparsecollCommGetAsyncError(comm, &state) == sparsecollSuccess);
  return state;
}

double secondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// What was not sent can be had once the communicator is dead.
void checkRescue(sparsecollReducer_t reducer, cudaStream_t stream) {
  const Elements residual = residualOf(reducer);
  if (residual.size() == 0) return;
  double kept = 0;
  for (size_t i = 0; i < residual.size(); ++i) kept += std::abs(residual[i]);
  CHECK(kept > 0);
  Elements dense(sparsecollFloat32, residual.size());
  CHECK(sparsecollReducerFlush(reducer, dense.data(), stream) == sparsecollSuccess);
  CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
  CHECK(dense == residual);
}

}  // namespace

TEST_CASE("a rank that does not come: Timeout, the stream is freed, the communicator is dead") {
  for (const char* const name : {"spardl", "dense"}) {
    CAPTURE(name);
    const sparsecollConfig_t config = impatient();
    const NcclRanks ranks(3, &config);
    REQUIRE(ranks.made() == all(3, sparsecollSuccess));
    NcclGroup group(ranks, kLength, sparsecollFloat32, preset(name, std::string(name) == "dense" ? 0 : 0.05));
    REQUIRE(group.created() == all(3, sparsecollSuccess));
    fillRandom(group.gradients, 1);
    CHECK(group.step() == all(3, sparsecollSuccess));
    const Results results = ranks.each([&](int rank) {
      if (rank == 2) return sparsecollSuccess;
      const sparsecollResult_t ran = group.run(rank);
      return ran == sparsecollSuccess ? sparsecollCommWait(ranks[rank], ranks.stream(rank), 0) : ran;
    });
    CHECK(results == Results{sparsecollTimeout, sparsecollTimeout, sparsecollSuccess});
    for (int rank = 0; rank < 2; ++rank) {
      CHECK(stateOf(ranks[rank]) == sparsecollTimeout);
      CHECK_THAT(failureOf(ranks[rank]).text, Catch::Contains("rank " + std::to_string(rank) + " of 3"));
      CHECK(group.run(rank) == sparsecollTimeout);
      CHECK(sparsecollCommWait(ranks[rank], ranks.stream(rank), 1) == sparsecollTimeout);
      CHECK(cudaStreamSynchronize(ranks.stream(rank)) == cudaSuccess);
      checkRescue(group.reducer(rank), ranks.stream(rank));
    }
    CHECK(fake::aliveCount() == 1);
    CHECK(sparsecollCommAbort(ranks[2]) == sparsecollSuccess);
    CHECK(fake::aliveCount() == 0);
  }
  checkNoMisuse();
}

TEST_CASE("work of the caller's own may take longer than an operation") {
  const sparsecollConfig_t config = impatient();
  const NcclRanks ranks(2, &config);
  NcclGroup group(ranks, kLength, sparsecollFloat32, preset("topka", 0.05));
  REQUIRE(group.step() == all(2, sparsecollSuccess));
  REQUIRE(ranks.each([&](int rank) { return group.run(rank); }) == all(2, sparsecollSuccess));
  std::atomic<bool> done{false};
  REQUIRE(simt::submitWhen(
              ranks.stream(0), [&] { return done.load(); }, [] {}) == cudaSuccess);
  CHECK(sparsecollCommWait(ranks[1], ranks.stream(1), 0) == sparsecollSuccess);
  CHECK(sparsecollCommWait(ranks[0], ranks.stream(0), 4500) == sparsecollTimeout);
  CHECK(stateOf(ranks[0]) == sparsecollSuccess);
  done = true;
  CHECK(sparsecollCommWait(ranks[0], ranks.stream(0), 0) == sparsecollSuccess);
  CHECK(group.step() == all(2, sparsecollSuccess));
  checkNoMisuse();
}

TEST_CASE("errors that NCCL reports come out as what they are, and name the rank") {
  struct Row {
    nccl::Code code;
    sparsecollResult_t result;
  };
  for (const Row& row :
       {Row{nccl::kUnhandledCudaError, sparsecollCudaError}, Row{nccl::kSystemError, sparsecollSystemError},
        Row{nccl::kInternalError, sparsecollInternalError}, Row{nccl::kInvalidArgument, sparsecollInternalError},
        Row{nccl::kInvalidUsage, sparsecollInternalError}, Row{nccl::kRemoteError, sparsecollRemoteError},
        Row{nccl::kTimeout, sparsecollTimeout}, Row{static_cast<nccl::Code>(99), sparsecollInternalError}}) {
    CAPTURE(int{row.code});
    const NcclRanks ranks(2);
    NcclGroup group(ranks, kLength, sparsecollFloat32, preset("topka", 0.05));
    REQUIRE(group.created() == all(2, sparsecollSuccess));
    REQUIRE(group.run(1) == sparsecollSuccess);
    fake::plant(1, row.code);
    CHECK(sparsecollCommWait(ranks[1], ranks.stream(1), 0) == row.result);
    CHECK(stateOf(ranks[1]) == row.result);
    const sparsecollFailure_t failure = failureOf(ranks[1]);
    CHECK(failure.peer == 0);
    CHECK_THAT(failure.text, Catch::Contains("rank 1 of 2"));
    CHECK(group.run(1) == row.result);
    fake::reset();
    CHECK(stateOf(ranks[0]) == sparsecollSuccess);
    CHECK(sparsecollCommAbort(ranks[0]) == sparsecollSuccess);
  }
  checkNoMisuse();
}

TEST_CASE("abort ends a wait, from any thread and as often as one likes") {
  for (const bool often : {false, true}) {
    const NcclRanks ranks(2);
    NcclGroup group(ranks, kLength, sparsecollFloat32, preset("micro", 0.05));
    REQUIRE(group.run(0) == sparsecollSuccess);
    const auto start = std::chrono::steady_clock::now();
    sparsecollResult_t waited = sparsecollSuccess;
    std::thread waiter([&] { waited = sparsecollCommWait(ranks[0], ranks.stream(0), 60000); });
    std::vector<std::thread> aborters;
    for (int i = 0; i < (often ? 8 : 1); ++i)
      aborters.emplace_back([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        (void)sparsecollCommAbort(ranks[0]);
      });
    for (std::thread& aborter : aborters) aborter.join();
    waiter.join();
    CHECK(waited == sparsecollAborted);
    CHECK(secondsSince(start) < 30);
    CHECK(group.run(0) == sparsecollAborted);
    CHECK(sparsecollCommAbort(ranks[1]) == sparsecollSuccess);
    CHECK(sparsecollCommAbort(ranks[1]) == sparsecollSuccess);
    CHECK(fake::aliveCount() == 0);
    CHECK(cudaStreamSynchronize(ranks.stream(0)) == cudaSuccess);
  }
  checkNoMisuse();
}

TEST_CASE("abort in the middle of calls: no call of NCCL comes after it") {
  for (int trial = 0; trial < 20; ++trial) {
    const NcclRanks ranks(2);
    NcclGroup group(ranks, 300, sparsecollFloat32, preset("topka", 0.05));
    REQUIRE(group.created() == all(2, sparsecollSuccess));
    std::thread aborter([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(300 * trial));
      for (int rank = 0; rank < 2; ++rank) (void)sparsecollCommAbort(ranks[rank]);
    });
    const Results results = ranks.each([&](int rank) {
      sparsecollResult_t result = sparsecollSuccess;
      while (result == sparsecollSuccess) {
        result = group.run(rank);
        if (result == sparsecollSuccess) result = sparsecollCommWait(ranks[rank], ranks.stream(rank), 60000);
      }
      return result;
    });
    aborter.join();
    CHECK(results == all(2, sparsecollAborted));
    for (int rank = 0; rank < 2; ++rank) CHECK(cudaStreamSynchronize(ranks.stream(rank)) == cudaSuccess);
  }
  checkNoMisuse();
}

TEST_CASE("making a communicator ends, too, where a rank does not come") {
  const sparsecollConfig_t config = impatient(200);
  sparsecollUniqueId_t id{};
  REQUIRE(sparsecollGetUniqueId(&id, nullptr) == sparsecollSuccess);
  sparsecollComm_t comm = nullptr;
  CHECK(sparsecollCommInitRank(&comm, 2, &id, 0, 0, &config) == sparsecollTimeout);
  CHECK(comm == nullptr);
  CHECK(fake::aliveCount() == 0);
  CHECK_THAT(sparsecollGetLastError(), Catch::Contains("rank(s) 1 have not come"));
  // The same rank twice.
  sparsecollUniqueId_t another{};
  REQUIRE(sparsecollGetUniqueId(&another, nullptr) == sparsecollSuccess);
  sparsecollResult_t results[2] = {};
  std::thread first([&] { results[0] = sparsecollCommInitRank(&comm, 2, &another, 1, 0, &config); });
  std::thread second([&] { results[1] = sparsecollCommInitRank(&comm, 2, &another, 1, 0, &config); });
  first.join();
  second.join();
  const bool refused = results[0] == sparsecollInvalidUsage || results[1] == sparsecollInvalidUsage;
  CHECK(refused);
  CHECK(comm == nullptr);
  CHECK(fake::aliveCount() == 0);
  checkNoMisuse();
}

TEST_CASE("ranks that ask for different reducers all get Mismatch, and go on") {
  const NcclRanks ranks(3);
  const sparsecollParams_t params = preset("topka", 0.05);
  std::vector<sparsecollReducer_t> reducers(3);
  const Results results = ranks.each([&](int rank) {
    return sparsecollReducerCreate(&reducers[static_cast<size_t>(rank)], kLength + (rank == 1 ? 1 : 0),
                                   sparsecollFloat32, &params, nullptr, ranks[rank]);
  });
  CHECK(results == all(3, sparsecollMismatch));
  for (int rank = 0; rank < 3; ++rank) {
    const sparsecollFailure_t failure = failureOf(ranks[rank]);
    CHECK(std::string(failure.field) == "n");
    CHECK(failure.peer == 1);
  }
  NcclGroup group(ranks, kLength, sparsecollFloat32, params);
  CHECK(group.created() == all(3, sparsecollSuccess));
  CHECK(group.step() == all(3, sparsecollSuccess));
  checkNoMisuse();
}

TEST_CASE("reducers in another order on one rank: Mismatch where the sizes are the same, Timeout where they are not") {
  for (const char* const name : {"topka", "dense"}) {
    CAPTURE(name);
    const sparsecollParams_t params = preset(name, std::string(name) == "dense" ? 0 : 0.05);
    {
      const NcclRanks ranks(2);
      NcclGroup a(ranks, kLength, sparsecollFloat32, params);
      NcclGroup b(ranks, kLength, sparsecollFloat32, params);
      const Results results = ranks.each([&](int rank) {
        const sparsecollResult_t ran = rank == 0 ? a.run(0) : b.run(1);
        return ran == sparsecollSuccess ? sparsecollCommWait(ranks[rank], ranks.stream(rank), 60000) : ran;
      });
      CHECK(results == all(2, sparsecollMismatch));
      for (int rank = 0; rank < 2; ++rank) {
        CHECK(std::string(failureOf(ranks[rank]).field) == "order");
        CHECK(failureOf(ranks[rank]).peer == 1 - rank);
        CHECK(stateOf(ranks[rank]) == sparsecollSuccess);
      }
      CHECK(a.step() == all(2, sparsecollSuccess));
    }
    checkNoMisuse();
    const sparsecollConfig_t config = impatient();
    const NcclRanks ranks(2, &config);
    NcclGroup a(ranks, kLength, sparsecollFloat32, params);
    NcclGroup b(ranks, 2 * kLength, sparsecollFloat32, params);
    const Results results = ranks.each([&](int rank) {
      const sparsecollResult_t ran = rank == 0 ? a.run(0) : b.run(1);
      return ran == sparsecollSuccess ? sparsecollCommWait(ranks[rank], ranks.stream(rank), 0) : ran;
    });
    CHECK(results == all(2, sparsecollTimeout));
    CHECK_FALSE(fake::misuse().empty());  // the test's own NCCL sees what a real one would hang in
    fake::reset();
    for (int rank = 0; rank < 2; ++rank) CHECK(cudaStreamSynchronize(ranks.stream(rank)) == cudaSuccess);
  }
}

TEST_CASE("over a communicator of the caller's") {
  const sparsecollParams_t params = preset("topka", 0.05);
  const bool blocking = GENERATE(true, false);
  for (const int takeSplit : {0, 1}) {
    CAPTURE(blocking, takeSplit);
    const std::vector<fake::Comm> theirs = fake::makeComms(3, blocking);
    Group host(3, kLength, sparsecollFloat32, params);
    {
      NcclRanks ranks(3, nullptr, [&](int rank, sparsecollComm_t* comm) {
        return sparsecollCommInitNccl(comm, theirs[static_cast<size_t>(rank)], takeSplit, nullptr);
      });
      REQUIRE(ranks.made() == all(3, sparsecollSuccess));
      CHECK(fake::aliveCount() == (takeSplit != 0 ? 6 : 3));
      int rank = -1, count = 0, device = -1;
      CHECK(sparsecollCommGetInfo(ranks[2], &rank, &count, &device) == sparsecollSuccess);
      CHECK((rank == 2 && count == 3 && device == 0));
      NcclGroup group(ranks, kLength, sparsecollFloat32, params);
      host.fillRandom(5);
      group.gradients = host.gradients;
      REQUIRE(host.step() == all(3, sparsecollSuccess));
      REQUIRE(group.step() == all(3, sparsecollSuccess));
      for (size_t r = 0; r < 3; ++r) CHECK(group.outs[r] == host.outs[r]);
    }
    for (fake::Comm comm : theirs) CHECK(fake::isAlive(comm));
    CHECK(fake::aliveCount() == 3);
    CHECK(fake::calls()["ncclCommAbort"] == 0);
    // Not even an abort touches it; ours is gone.
    {
      NcclRanks ranks(3, nullptr, [&](int rank, sparsecollComm_t* comm) {
        return sparsecollCommInitNccl(comm, theirs[static_cast<size_t>(rank)], takeSplit, nullptr);
      });
      for (int rank = 0; rank < 3; ++rank) CHECK(sparsecollCommAbort(ranks[rank]) == sparsecollSuccess);
      for (int rank = 0; rank < 3; ++rank)
        CHECK(sparsecollCommWait(ranks[rank], ranks.stream(rank), 0) == sparsecollAborted);
    }
    CHECK(fake::calls()["ncclCommAbort"] == (takeSplit != 0 ? 3 : 0));
    CHECK(fake::aliveCount() == 3);
    REQUIRE(nccl::library().ok());
    for (fake::Comm comm : theirs) CHECK((*nccl::library())->CommDestroy(comm) == nccl::kSuccess);
    checkNoMisuse();
  }
}

TEST_CASE("destroying: in good order without an abort, and after the deadline with one") {
  {
    NcclRanks ranks(2);
    NcclGroup group(ranks, kLength, sparsecollFloat32, preset("topka", 0.05));
    REQUIRE(group.step() == all(2, sparsecollSuccess));
    for (int rank = 0; rank < 2; ++rank) CHECK(sparsecollCommDestroy(ranks.release(rank)) == sparsecollSuccess);
    CHECK(fake::aliveCount() == 0);
    CHECK(fake::calls()["ncclCommAbort"] == 0);
    CHECK(fake::calls()["ncclCommDestroy"] == 2);
    std::vector<float> vector(kLength);
    CHECK(sparsecollReducerRun(group.reducer(0), vector.data(), vector.data(), ranks.stream(0)) ==
          sparsecollInvalidUsage);
  }
  const sparsecollConfig_t config = impatient();
  NcclRanks ranks(2, &config);
  NcclGroup group(ranks, kLength, sparsecollFloat32, preset("topka", 0.05));
  REQUIRE(group.run(0) == sparsecollSuccess);
  CHECK(sparsecollCommDestroy(ranks.release(0)) == sparsecollSuccess);
  CHECK(fake::calls()["ncclCommAbort"] == 1);
  CHECK(cudaStreamSynchronize(ranks.stream(0)) == cudaSuccess);
  checkNoMisuse();
}

TEST_CASE("arguments") {
  sparsecollUniqueId_t id{};
  sparsecollComm_t comm = nullptr;
  CHECK(sparsecollGetUniqueId(nullptr, nullptr) == sparsecollInvalidArgument);
  CHECK(sparsecollGetUniqueId(&id, nullptr) == sparsecollSuccess);
  CHECK(sparsecollCommInitRank(nullptr, 1, &id, 0, 0, nullptr) == sparsecollInvalidArgument);
  CHECK(sparsecollCommInitRank(&comm, 1, nullptr, 0, 0, nullptr) == sparsecollInvalidArgument);
  CHECK(sparsecollCommInitRank(&comm, 0, &id, 0, 0, nullptr) == sparsecollInvalidArgument);
  CHECK(sparsecollCommInitRank(&comm, 257, &id, 0, 0, nullptr) == sparsecollInvalidArgument);
  CHECK(sparsecollCommInitRank(&comm, 2, &id, 2, 0, nullptr) == sparsecollInvalidArgument);
  CHECK(sparsecollCommInitRank(&comm, 2, &id, -1, 0, nullptr) == sparsecollInvalidArgument);
  CHECK(sparsecollCommInitRank(&comm, 1, &id, 0, 1000, nullptr) == sparsecollInvalidArgument);
  CHECK(sparsecollCommInitRank(&comm, 1, &id, 0, -3, nullptr) == sparsecollInvalidArgument);
  CHECK(sparsecollCommInitNccl(nullptr, nullptr, 0, nullptr) == sparsecollInvalidArgument);
  CHECK(sparsecollCommInitNccl(&comm, nullptr, 0, nullptr) == sparsecollInvalidArgument);
  sparsecollConfig_t config = SPARSECOLL_INIT(sparsecollConfig_t);
  config.transport = sparsecollTransportThreads;
  CHECK(sparsecollGetUniqueId(&id, &config) == sparsecollUnsupported);
  config.transport = sparsecollTransportNccl;
  CHECK(sparsecollCommInitAll(&comm, 1, nullptr, &config) == sparsecollUnsupported);
  config.backend = sparsecollBackendHost;
  CHECK(sparsecollCommInitRank(&comm, 1, &id, 0, 0, &config) == sparsecollInvalidArgument);
  CHECK(comm == nullptr);
  const std::vector<fake::Comm> theirs = fake::makeComms(1, true);
  CHECK(sparsecollCommInitNccl(&comm, theirs[0], 2, nullptr) == sparsecollInvalidArgument);
  (void)setenv("SPARSECOLL_RATE", "1G", 1);
  CHECK(sparsecollCommInitNccl(&comm, theirs[0], 0, nullptr) == sparsecollUnsupported);
  CHECK_THAT(sparsecollGetLastError(), Catch::Contains("SPARSECOLL_RATE"));
  (void)unsetenv("SPARSECOLL_RATE");
  CHECK(comm == nullptr);
  REQUIRE(nccl::library().ok());
  CHECK((*nccl::library())->CommDestroy(theirs[0]) == nccl::kSuccess);
  config.backend = sparsecollBackendCuda;
  CHECK(sparsecollCommInitRank(&comm, 1, &id, 0, SPARSECOLL_CURRENT_DEVICE, &config) == sparsecollSuccess);
  CHECK(sparsecollCommWait(comm, cudaStreamPerThread, 1) == sparsecollInvalidArgument);
  CHECK_THAT(sparsecollGetLastError(), Catch::Contains("cudaStreamPerThread"));
  CHECK(sparsecollCommDestroy(comm) == sparsecollSuccess);
  int available = 0;
  CHECK(sparsecollBackendAvailable(sparsecollBackendCuda, sparsecollTransportNccl, &available) == sparsecollSuccess);
  CHECK(available == 1);
  available = 0;
  CHECK(sparsecollBackendAvailable(sparsecollBackendCuda, sparsecollTransportThreads, &available) == sparsecollSuccess);
  CHECK(available == 1);
  CHECK(sparsecollBackendAvailable(sparsecollBackendHost, sparsecollTransportNccl, &available) == sparsecollSuccess);
  CHECK(available == 0);
  checkNoMisuse();
}

TEST_CASE("an NCCL that is not there, is not one, or is too old") {
  auto missing = nccl::loadLibrary("libnccl-that-nobody-has.so");
  REQUIRE_FALSE(missing.ok());
  const sparsecoll::Status status = missing.takeStatus();
  CHECK(status.result() == sparsecollUnsupported);
  CHECK_THAT(status.failure().text.c_str(), Catch::Contains("libnccl-that-nobody-has.so"));
  auto another = nccl::loadLibrary("libm.so.6");
  REQUIRE_FALSE(another.ok());
  CHECK(another.takeStatus().result() == sparsecollUnsupported);
  fake::pretendVersion(21304);
  auto old = nccl::loadLibrary(nullptr);
  REQUIRE_FALSE(old.ok());
  const sparsecoll::Status tooOld = old.takeStatus();
  CHECK(tooOld.result() == sparsecollUnsupported);
  CHECK_THAT(tooOld.failure().text.c_str(), Catch::Contains("21304"));
  // The same of a file, which then lacks calls.
  setenv("FAKE_NCCL_VERSION", "2707", 1);
  CHECK_THAT(nccl::loadLibrary(SPARSECOLL_TEST_OLD_NCCL).takeStatus().failure().text.c_str(), Catch::Contains("2707"));
  setenv("FAKE_NCCL_VERSION", "22809", 1);
  CHECK_THAT(nccl::loadLibrary(SPARSECOLL_TEST_OLD_NCCL).takeStatus().failure().text.c_str(),
             Catch::Contains("has no nccl"));
  fake::pretendVersion(nccl::kOldestVersion);
  CHECK(nccl::loadLibrary(nullptr).ok());
  fake::reset();
}

TEST_CASE("a split that the others do not join ends in time, where the caller's communicator does not block") {
  const std::vector<fake::Comm> theirs = fake::makeComms(2, false);
  const sparsecollConfig_t config = impatient();
  sparsecollComm_t comms[2] = {};
  CHECK(sparsecollCommInitNccl(&comms[0], theirs[0], 1, &config) == sparsecollTimeout);
  CHECK_THAT(sparsecollGetLastError(), Catch::Contains("ncclCommSplit: the other ranks have not come in time"));
  // NCCL may write to the place that it was given as long as it likes.
  CHECK(sparsecollCommInitNccl(&comms[1], theirs[1], 1, &config) != sparsecollSuccess);
  nccl::Code state = nccl::kInProgress;
  REQUIRE(nccl::library().ok());
  for (int asked = 0; asked < 10; ++asked)
    CHECK((*nccl::library())->CommGetAsyncError(theirs[0], &state) == nccl::kSuccess);
  CHECK(state == nccl::kSuccess);
  CHECK((comms[0] == nullptr && comms[1] == nullptr));
  for (fake::Comm comm : theirs) CHECK((*nccl::library())->CommAbort(comm) == nccl::kSuccess);
  CHECK(fake::aliveCount() == 1);  // rank 0's half of the split, which nobody knows of
  fake::reset();
}
