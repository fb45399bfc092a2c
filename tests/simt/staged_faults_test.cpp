// What goes wrong with steps on devices over an engine of messages: ranks that do not come, that end, that mean
// something else, engines that fail, streams that stand still, memory that is not there. Every wait ends, of hosts and
// of streams, everybody is told the right thing, and nothing leaves a residual that has not arrived.
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>

#include "tests/simt/staged_ranks.h"
#include "tests/simt/streams.h"

using namespace sparsecoll::test;

namespace {

constexpr uint64_t kLength = 3000;

#ifdef SPARSECOLL_TEST_SANITIZED
constexpr int kTrials = 6;
constexpr int64_t kCalls = 60;
#else
constexpr int kTrials = 40;
constexpr int64_t kCalls = 300;
#endif

// Long enough for what ranks do together on a busy machine, short enough to wait for what does not come.
sparsecollConfig_t impatient(uint64_t timeoutMs = 2500) {
  sparsecollConfig_t config = SPARSECOLL_INIT(sparsecollConfig_t);
  config.opTimeoutMs = timeoutMs;
  config.initTimeoutMs = 20000;
  config.abortTimeoutMs = 2000;
  return config;
}

sparsecollResult_t runAndWait(const StreamRanks& ranks, StreamGroup& group, int rank) {
  const sparsecollResult_t ran = group.run(rank);
  return ran == sparsecollSuccess ? sparsecollCommWait(ranks[rank], ranks.stream(rank), 60000) : ran;
}

void checkStreamsEnd(const StreamRanks& ranks) {
  for (int rank = 0; rank < ranks.count(); ++rank) CHECK(cudaStreamSynchronize(ranks.stream(rank)) == cudaSuccess);
}

}  // namespace

TEST_CASE("a rank that skips a step is missed by the others, and no stream is left waiting") {
  struct Row {
    const char* name;
    int ranks;
    bool meetAll;  // in one round, so that all wait for the same rank
  };
  const sparsecollConfig_t config = impatient();
  for (const Row& row : {Row{"topka", 2, true}, Row{"topka", 4, true}, Row{"micro", 3, true}, Row{"dense", 3, true},
                         Row{"spardl", 4, false}, Row{"gtopk", 3, false}, Row{"oktopk", 3, false}}) {
    const int missing = row.ranks - 2;
    CAPTURE(row.name, row.ranks, missing);
    const StagedRanks ranks(row.ranks, &config);
    StreamGroup group(ranks, kLength, sparsecollFloat32, paramsOf(row.name, 0.05));
    const KnownVectors known(group);
    REQUIRE(group.step() == all(row.ranks, sparsecollSuccess));
    const Results results =
        ranks.each([&](int rank) { return rank == missing ? sparsecollSuccess : runAndWait(ranks, group, rank); });
    int timeouts = 0;
    for (int rank = 0; rank < row.ranks; ++rank) {
      if (rank == missing) continue;
      const sparsecollResult_t result = results[static_cast<size_t>(rank)];
      const sparsecollFailure_t failure = failureOf(ranks[rank]);
      CAPTURE(rank, failure.text);
      CHECK((result == sparsecollTimeout || result == sparsecollPeerFailed));
      CHECK(failure.result == result);
      CHECK((failure.peer >= 0 && failure.peer != rank));
      CHECK(group.run(rank) == result);
      if (result != sparsecollTimeout) continue;
      ++timeouts;
      CHECK((failure.peer == missing || !row.meetAll));
    }
    CHECK(timeouts >= 1);
    checkStreamsEnd(ranks);
  }
  checkNoMisuse();
}

TEST_CASE("whoever asks only for the communicator's state learns that it has ended, without CommWait") {
  const sparsecollConfig_t config = impatient();
  const StagedRanks ranks(2, &config);
  StreamGroup group(ranks, kLength, sparsecollFloat32, paramsOf("topka"));
  const KnownVectors known(group);
  REQUIRE(group.step() == all(2, sparsecollSuccess));
  const auto stateOf = [&](int rank) {
    sparsecollResult_t state = sparsecollInternalError;
    CHECK(sparsecollCommGetAsyncError(ranks[rank], &state) == sparsecollSuccess);
    return state;
  };
  CHECK(stateOf(0) == sparsecollSuccess);
  const bool asksForFailure = GENERATE(false, true);
  CAPTURE(asksForFailure);
  REQUIRE(group.run(0) == sparsecollSuccess);  // rank 1 does not
  CHECK(cudaStreamSynchronize(ranks.stream(0)) == cudaSuccess);
  if (asksForFailure) CHECK(failureOf(ranks[0]).peer == 1);
  CHECK(stateOf(0) == sparsecollTimeout);
  CHECK(failureOf(ranks[0]).result == sparsecollTimeout);
  CHECK(group.run(0) == sparsecollTimeout);
  checkNoMisuse();
}

TEST_CASE("a communicator goes while other work of the device goes on") {
  const sparsecollConfig_t config = impatient();
  cudaStream_t others = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&others, cudaStreamNonBlocking) == cudaSuccess);
  std::atomic<bool> over{false};
  {
    StagedRanks ranks(2, &config);
    auto group = std::make_unique<StreamGroup>(ranks, kLength, sparsecollFloat32, paramsOf("topka"));
    auto known = std::make_unique<KnownVectors>(*group);
    REQUIRE(group->step() == all(2, sparsecollSuccess));
    simt::submitWhen(
        others, [&] { return over.load(); }, [] {});
    known.reset();
    group.reset();
    for (int rank = 0; rank < 2; ++rank) CHECK(sparsecollCommDestroy(ranks.release(rank)) == sparsecollSuccess);
    CHECK(cudaStreamQuery(others) == cudaErrorNotReady);
    over = true;
  }
  CHECK(cudaStreamSynchronize(others) == cudaSuccess);
  CHECK(cudaStreamDestroy(others) == cudaSuccess);
  // The next one gets the same pinned memory.
  const uint64_t before = simt::calls("cudaHostAlloc");
  {
    const StagedRanks ranks(2, &config);
    StreamGroup group(ranks, kLength, sparsecollFloat32, paramsOf("topka"));
    const KnownVectors known(group);
    REQUIRE(group.step() == all(2, sparsecollSuccess));
  }
  CHECK(simt::calls("cudaHostAlloc") == before);
  checkNoMisuse();
}

TEST_CASE("a rank may be late, as long as it comes in time") {
  const StagedRanks ranks(3);
  for (const char* const name : {"topka", "gtopk", "dense"}) {
    StreamGroup group(ranks, kLength, sparsecollFloat32, paramsOf(name, 0.05));
    const KnownVectors known(group);
    CHECK(ranks.each([&](int rank) {
      if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(50));
      return runAndWait(ranks, group, rank);
    }) == all(3, sparsecollSuccess));
  }
  checkNoMisuse();
}

TEST_CASE("a rank that has destroyed its communicator, or aborted it, is PeerFailed on the others") {
  for (const char* const name : {"topka", "spardl", "dense"}) {
    for (const bool aborts : {false, true}) {
      CAPTURE(name, aborts);
      StagedRanks ranks(3);
      StreamGroup group(ranks, kLength, sparsecollFloat32, paramsOf(name, 0.05));
      const KnownVectors known(group);
      REQUIRE(group.step() == all(3, sparsecollSuccess));
      const Results results = ranks.each([&](int rank) {
        if (rank != 1) return runAndWait(ranks, group, rank);
        return aborts ? sparsecollCommAbort(ranks[rank]) : sparsecollCommDestroy(ranks.release(rank));
      });
      CHECK(results == Results{sparsecollPeerFailed, sparsecollSuccess, sparsecollPeerFailed});
      checkStreamsEnd(ranks);
    }
  }
  checkNoMisuse();
}

TEST_CASE("abort ends a wait, from any thread and as often as one likes") {
  for (const char* const name : {"micro", "dense"}) {
    for (const bool often : {false, true}) {
      const StagedRanks ranks(2);
      StreamGroup group(ranks, kLength, sparsecollFloat32, paramsOf(name, 0.05));
      const KnownVectors known(group);
      for (int step = 0; step < 3; ++step) REQUIRE(group.run(0) == sparsecollSuccess);
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
      CHECK(group.run(0) == sparsecollAborted);
      CHECK(cudaStreamSynchronize(ranks.stream(0)) == cudaSuccess);
      CHECK(runAndWait(ranks, group, 1) == sparsecollPeerFailed);
    }
  }
  checkNoMisuse();
}

// The residuals that a rank may have after passes with one gradient, of which the first so many took effect and the
// others have only added it.
TEST_CASE("whenever a rank aborts, nothing leaves a residual that has not arrived") {
  constexpr int kMostPasses = 5;
  for (const char* const name : {"topka", "spardl"}) {
    Group host(3, 301, sparsecollFloat32, paramsOf(name, 0.03));
    host.fillRandom(7);
    std::vector<std::vector<Elements>> after(1);  // steps that took effect
    for (int rank = 0; rank < 3; ++rank) after[0].push_back(host.residual(rank));
    for (int step = 0; step < kMostPasses; ++step) {
      REQUIRE(host.step() == all(3, sparsecollSuccess));
      after.emplace_back();
      for (int rank = 0; rank < 3; ++rank) after.back().push_back(host.residual(rank));
    }
    const auto isSound = [&](const Elements& residual, size_t rank) {
      for (const std::vector<Elements>& state : after) {
        Elements now = state[rank];
        for (int added = 0; added <= kMostPasses; ++added) {
          if (now == residual) return true;
          for (size_t i = 0; i < now.size(); ++i)
            now.set(i, static_cast<double>(static_cast<float>(now[i]) + static_cast<float>(host.gradients[rank][i])));
        }
      }
      return false;
    };
    for (int trial = 0; trial < kTrials; ++trial) {
      CAPTURE(name, trial);
      const StagedRanks ranks(3);
      StreamGroup group(ranks, 301, sparsecollFloat32, paramsOf(name, 0.03));
      group.gradients = host.gradients;
      std::thread aborter([&] {
        std::this_thread::sleep_for(std::chrono::microseconds(150 * trial));
        (void)sparsecollCommAbort(ranks[trial % 3]);
      });
      const Results results = ranks.each([&](int rank) {
        sparsecollResult_t result = sparsecollSuccess;
        for (int step = 0; step < kMostPasses && result == sparsecollSuccess; ++step) result = group.run(rank);
        const sparsecollResult_t waited = sparsecollCommWait(ranks[rank], ranks.stream(rank), 60000);
        return result == sparsecollSuccess ? waited : result;
      });
      aborter.join();
      checkStreamsEnd(ranks);
      for (int rank = 0; rank < 3; ++rank) {
        const sparsecollResult_t result = results[static_cast<size_t>(rank)];
        CAPTURE(rank, result);
        CHECK((result == sparsecollSuccess || result == sparsecollAborted || result == sparsecollPeerFailed));
        CHECK(isSound(group.residual(rank), static_cast<size_t>(rank)));
      }
    }
  }
  checkNoMisuse();
}

TEST_CASE("reducers in another order on one rank: Mismatch on all, told once, and the ranks go on") {
  const StagedRanks ranks(3);
  for (const char* const name : {"topka", "spardl", "dense"}) {
    CAPTURE(name);
    const sparsecollParams_t params = paramsOf(name, 0.05);
    StreamGroup a(ranks, kLength, sparsecollFloat32, params);
    StreamGroup b(ranks, 2 * kLength, sparsecollFloat32, params);
    REQUIRE(b.created() == all(3, sparsecollSuccess));
    for (int trial = 0; trial < 3; ++trial) {
      CHECK(ranks.each([&](int rank) { return runAndWait(ranks, rank == trial ? a : b, rank); }) ==
            all(3, sparsecollMismatch));
      for (int rank = 0; rank < 3; ++rank) {
        CHECK(std::string(failureOf(ranks[rank]).field) == "order");
        CHECK(failureOf(ranks[rank]).peer >= 0);
      }
      CHECK(ranks.wait() == all(3, sparsecollSuccess));
      CHECK(a.step() == all(3, sparsecollSuccess));
      CHECK(b.step() == all(3, sparsecollSuccess));
    }
  }
  checkNoMisuse();
}

TEST_CASE("a stream that does not come to the step is a Timeout here, and the others are told") {
  const sparsecollConfig_t config = impatient();
  for (const char* const name : {"topka", "dense"}) {
    CAPTURE(name);
    const StagedRanks ranks(2, &config);
    StreamGroup group(ranks, kLength, sparsecollFloat32, paramsOf(name, 0.05));
    const KnownVectors known(group);
    REQUIRE(group.step() == all(2, sparsecollSuccess));
    std::atomic<bool> opens{false};
    REQUIRE(simt::submitWhen(
                ranks.stream(0), [&] { return opens.load(); }, [] {}) == cudaSuccess);
    const Results results = ranks.each([&](int rank) { return runAndWait(ranks, group, rank); });
    CHECK(results[0] != sparsecollSuccess);
    CHECK((results[1] == sparsecollTimeout || results[1] == sparsecollPeerFailed));
    CHECK((results[0] == sparsecollTimeout || results[0] == sparsecollPeerFailed));
    opens = true;
    checkStreamsEnd(ranks);
  }
  checkNoMisuse();
}

TEST_CASE("a function of the engine that fails, at whichever call") {
  for (const char* const name : {"topka", "dense", "spardl"}) {
    int failed = 0;
    // The first calls come however busy the machine is: how often a message is tested depends on that.
    for (int64_t call = 0; call < kCalls; call += call < 24 ? 1 : call < 40 ? 3 : 29) {
      CAPTURE(name, call);
      const sparsecollConfig_t config = impatient(20000);
      Mischief mischief;
      const StagedRanks ranks(2, &config, &mischief);
      StreamGroup group(ranks, kLength, sparsecollFloat32, paramsOf(name, 0.05));
      const KnownVectors known(group);
      REQUIRE(group.created() == all(2, sparsecollSuccess));
      mischief.callsUntilFailure = call;
      const Results results = ranks.each([&](int rank) {
        sparsecollResult_t result = sparsecollSuccess;
        for (int step = 0; step < 3 && result == sparsecollSuccess; ++step) result = runAndWait(ranks, group, rank);
        return result;
      });
      if (mischief.callsUntilFailure >= 0) continue;  // it did not come to that
      for (const sparsecollResult_t result : results)
        CHECK((result == sparsecollSuccess || result == sparsecollPeerFailed));
      failed += results == all(2, sparsecollSuccess) ? 0 : 1;
      checkStreamsEnd(ranks);
    }
    CHECK(failed >= 5);
  }
  checkNoMisuse();
}

TEST_CASE("a bit that turns on the way is noticed, by the thread or by a kernel") {
  Random random(20261122);
  for (const char* const name : {"topka", "micro", "spardl", "gtopk"}) {
    for (int trial = 0; trial < 3; ++trial) {
      CAPTURE(name, trial);
      const sparsecollConfig_t config = impatient(20000);
      std::mutex mutex;
      int64_t wait = -1;  // messages until one is spoilt; negative: never
      Mischief mischief;
      mischief.spoil = [&](int, int, std::vector<std::byte>& bytes) {
        const std::lock_guard lock(mutex);
        if (wait < 0 || bytes.empty() || wait-- != 0) return;
        const uint64_t bit = random.below(bytes.size() * 8);
        bytes[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
      };
      const StagedRanks ranks(3, &config, &mischief);
      StreamGroup group(ranks, 10 * kLength, sparsecollFloat32, paramsOf(name, 0.1));
      for (size_t r = 0; r < 3; ++r) group.gradients[r].fill(1 + 0.5 * static_cast<double>(r));
      {
        const std::lock_guard lock(mutex);
        wait = static_cast<int64_t>(random.below(20));
      }
      const Results results = ranks.each([&](int rank) {
        sparsecollResult_t result = sparsecollSuccess;
        for (int step = 0; step < 8 && result == sparsecollSuccess; ++step) result = runAndWait(ranks, group, rank);
        return result;
      });
      int corrupted = 0;
      for (int rank = 0; rank < 3; ++rank) {
        const sparsecollResult_t result = results[static_cast<size_t>(rank)];
        CAPTURE(rank, failureOf(ranks[rank]).text);
        corrupted += result == sparsecollCorrupted ? 1 : 0;
        CHECK((result == sparsecollCorrupted || result == sparsecollPeerFailed));
      }
      CHECK(corrupted >= 1);
      checkStreamsEnd(ranks);
    }
  }
  checkNoMisuse();
}

TEST_CASE("destroying a communicator ends its steps, and reducers may go before or after it") {
  const sparsecollConfig_t config = impatient();
  for (const bool reducersFirst : {false, true}) {
    for (const char* const name : {"topka", "dense"}) {
      CAPTURE(reducersFirst, name);
      StagedRanks ranks(2, &config);
      auto group = std::make_unique<StreamGroup>(ranks, kLength, sparsecollFloat32, paramsOf(name, 0.05));
      auto known = std::make_unique<KnownVectors>(*group);
      REQUIRE(group->step() == all(2, sparsecollSuccess));
      REQUIRE(group->run(0) == sparsecollSuccess);  // rank 1 does not
      const auto dropGroup = [&] {
        CHECK(cudaStreamSynchronize(ranks.stream(0)) == cudaSuccess);
        known.reset();
        group.reset();
      };
      if (reducersFirst) dropGroup();
      for (int rank = 0; rank < 2; ++rank) CHECK(sparsecollCommDestroy(ranks.release(rank)) == sparsecollSuccess);
      if (!reducersFirst) {
        CHECK(group->run(0) == sparsecollInvalidUsage);
        dropGroup();
      }
    }
  }
  checkNoMisuse();
}

TEST_CASE("the i-th piece of memory is not there: OutOfMemory, nothing is lost, and the call works the next time") {
  const simt::QueuesFor queues(4);  // two communicators of two ranks at a time
  const sparsecollConfig_t config = impatient(20000);
  // Pinned memory is kept, and used instead of a piece that is refused.
  const auto bytesOnDevice = [] { return simt::liveMemory().bytes - simt::liveMemory().pinnedBytes; };
  for (const char* const name : {"topka", "dense"}) {
    const sparsecollParams_t params = paramsOf(name, 0.05);
    uint64_t refusals = 0;
    for (uint64_t i = 0;; ++i) {
      CAPTURE(name, i);
      const uint64_t before = bytesOnDevice(), objects = simt::liveObjects();
      bool refused = false;
      {
        simt::failAllocation(i);
        const StagedRanks failing(2, &config);
        if (!simt::allocationWillFail()) ++refusals;
        simt::forgetFailures();
        const Results& made = failing.made();
        if (made != all(2, sparsecollSuccess)) {
          CHECK((made[0] == sparsecollOutOfMemory || made[1] == sparsecollOutOfMemory));
        } else {
          const StagedRanks ranks(2, &config);
          const uint64_t held = bytesOnDevice();
          simt::failAllocation(i - refusals);
          {
            const StreamGroup first(ranks, kLength, sparsecollFloat32, params);
            refused = !simt::allocationWillFail();
            simt::forgetFailures();
            if (first.created()[0] != sparsecollSuccess) {
              const size_t lacking = first.created()[0] == sparsecollOutOfMemory ? 0 : 1;
              CHECK(first.created()[lacking] == sparsecollOutOfMemory);
              CHECK(first.created()[1 - lacking] == sparsecollMismatch);
            }
          }
          CHECK(bytesOnDevice() == held);
          StreamGroup again(ranks, kLength, sparsecollFloat32, params);
          CHECK(again.created() == all(2, sparsecollSuccess));
          CHECK(again.step() == all(2, sparsecollSuccess));
        }
      }
      CHECK(bytesOnDevice() == before);
      CHECK(simt::liveObjects() == objects);
      if (refusals < i + 1 && !refused) break;
    }
    CHECK(refusals > 0);
  }
  checkNoMisuse();
}
