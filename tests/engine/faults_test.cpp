// Engines that fail, lie, or lose their peers: every rank gets an error that says so, memory stays whole, and the
// engine goes back to its owner once.
#include "tests/support/catch.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <limits>
#include <mutex>
#include <thread>

#include "tests/support/group.h"
#include "tests/support/pair_engine.h"
#include "tests/support/sent_dense.h"

using namespace sparsecoll::test;

namespace {

constexpr uint64_t kLength = 30000;  // frames on both sides of what fits into an envelope

sparsecollConfig_t impatient(uint64_t timeoutMs) {
  sparsecollConfig_t config = SPARSECOLL_INIT(sparsecollConfig_t);
  config.opTimeoutMs = config.initTimeoutMs = timeoutMs;
  config.abortTimeoutMs = 2000;
  return config;
}

sparsecollResult_t stepOf(const Reducers& reducers, int rank, uint64_t length = kLength) {
  std::vector<float> vector(length, static_cast<float>(rank + 1));
  for (size_t i = 0; i < vector.size(); ++i) vector[i] += static_cast<float>(i % 97) * 0.01f;
  return sparsecollReducerRun(reducers[rank], vector.data(), vector.data(), nullptr);
}

struct Team {
  Team(int ranks, const sparsecollConfig_t& config, Mischief* mischief = nullptr)
      : comms(static_cast<size_t>(ranks)), result(makeOverPairs(comms.data(), ranks, &config, mischief)) {}
  std::vector<sparsecollComm_t> comms;
  sparsecollResult_t result;
};

// Steps of every rank until one fails, at most a few.
Results runUntilFailure(const Ranks& ranks, const Reducers& reducers, int steps) {
  return onEach(ranks, [&](int rank, sparsecollComm_t) {
    sparsecollResult_t result = sparsecollSuccess;
    for (int step = 0; step < steps && result == sparsecollSuccess; ++step) result = stepOf(reducers, rank);
    return result;
  });
}

bool isGood(sparsecollResult_t result) { return result == sparsecollSuccess; }

}  // namespace

TEST_CASE("a bit that turns on the way is noticed, whichever it is") {
  const uint64_t seed = 20261122;
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  Random random(seed);
  for (const char* const name : {"topka", "micro", "spardl", "gtopk"})
    for (int trial = 0; trial < 12; ++trial) {
      CAPTURE(name, trial);
      Mischief mischief;
      std::mutex mutex;
      int64_t wait = -1;  // messages until one is spoilt; negative: never
      mischief.spoil = [&](int, int, std::vector<std::byte>& bytes) {
        const std::lock_guard lock(mutex);
        if (wait < 0 || bytes.empty() || wait-- != 0) return;
        const uint64_t bit = random.below(bytes.size() * 8);
        bytes[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
      };
      Team team(3, impatient(4000), &mischief);
      REQUIRE(team.result == sparsecollSuccess);
      const Ranks ranks(std::move(team.comms));
      const Reducers reducers(ranks, kLength, sparsecollFloat32, preset(name, 0.1));
      {
        const std::lock_guard lock(mutex);
        wait = static_cast<int64_t>(random.below(24));
      }
      const Results results = runUntilFailure(ranks, reducers, 8);
      int corrupted = 0;
      for (int rank = 0; rank < 3; ++rank) {
        const sparsecollResult_t result = results[static_cast<size_t>(rank)];
        CAPTURE(rank, failureOf(ranks[rank]).text);
        corrupted += result == sparsecollCorrupted ? 1 : 0;
        CHECK((result == sparsecollCorrupted || result == sparsecollPeerFailed));
      }
      CHECK(corrupted >= 1);
    }
}

// One bit of one message of a step: which message to whom, which byte.
struct Spot {
  int peer = -1;
  size_t message = 0, byte = 0;
};

// A few steps of two ranks; turns the bit in the first of them. sizes: of the messages of the first step, to each rank.
// Empty, or what is wrong.
std::string stepsWith(const char* name, const Spot& spot, int bit, std::vector<size_t> (&sizes)[2]) {
  constexpr uint64_t kShort = 40;
  Mischief mischief;
  std::mutex mutex;
  bool counts = false, turned = false;
  size_t met[2] = {};
  mischief.spoil = [&](int peer, int, std::vector<std::byte>& bytes) {
    const std::lock_guard lock(mutex);
    if (!counts) return;
    if (spot.peer < 0) sizes[peer].push_back(bytes.size());
    if (peer == spot.peer && met[peer] == spot.message && spot.byte < bytes.size()) {
      bytes[spot.byte] ^= static_cast<std::byte>(1 << bit);
      turned = true;
    }
    ++met[peer];
  };
  Team team(2, impatient(4000), &mischief);
  if (team.result != sparsecollSuccess) return "no communicator";
  const Ranks ranks(std::move(team.comms));
  const Reducers reducers(ranks, kShort, sparsecollFloat32, preset(name, 0.1));
  {
    const std::lock_guard lock(mutex);
    counts = true;
  }
  const Results results = onEach(ranks, [&](int rank, sparsecollComm_t comm) {
    sparsecollResult_t result = sparsecollSuccess;
    for (int step = 0; step < (spot.peer < 0 ? 1 : 8) && isGood(result); ++step)
      result = stepOf(reducers, rank, kShort);
    if (!isGood(result)) (void)sparsecollCommAbort(comm);  // who found it alone keeps nobody waiting
    return result;
  });
  const auto good = std::ranges::count_if(results, isGood);
  if (good == (turned ? 0 : 2)) return "";
  return std::string(turned ? "turned" : "whole") + ": " + sparsecollGetErrorString(results[0]) + ", " +
         sparsecollGetErrorString(results[1]);
}

#ifdef __SANITIZE_THREAD__
constexpr size_t kEveryByte = 31;
#elif defined(__SANITIZE_ADDRESS__)
constexpr size_t kEveryByte = 2;
#else
constexpr size_t kEveryByte = 1;
#endif

TEST_CASE("in a whole step no byte of any message can change unnoticed") {
  Random random(20261127);
  for (const char* const name : {"topka", "micro", "spardl", "gtopk"}) {
    std::vector<size_t> sizes[2];
    CHECK(stepsWith(name, {}, 0, sizes).empty());
    for (int peer = 0; peer < 2; ++peer) {
      CHECK_FALSE(sizes[peer].empty());
      for (size_t message = 0; message < sizes[peer].size(); ++message)
        for (size_t byte = random.below(kEveryByte); byte < sizes[peer][message]; byte += kEveryByte) {
          const auto bit = static_cast<int>(random.below(8));
          const std::string wrong = stepsWith(name, {peer, message, byte}, bit, sizes);
          CAPTURE(name, peer, message, byte, bit);
          if (!wrong.empty()) FAIL_CHECK(wrong);
        }
    }
  }
}

TEST_CASE("messages that are cut, grow, or go missing are errors") {
  enum class Change { kCut, kGrow, kEmpty };
  for (const Change change : {Change::kCut, Change::kGrow, Change::kEmpty})
    for (const int tag : {0, 1}) {
      CAPTURE(static_cast<int>(change), tag);
      Mischief mischief;
      std::atomic<bool> armed{false};
      mischief.spoil = [&](int, int of, std::vector<std::byte>& bytes) {
        if (of != tag || !armed.exchange(false)) return;
        if (change == Change::kCut) bytes.resize(bytes.size() - 1);
        if (change == Change::kGrow) bytes.resize(bytes.size() + (tag == 0 ? 5000 : 1));
        if (change == Change::kEmpty) bytes.clear();
      };
      Team team(3, impatient(4000), &mischief);
      REQUIRE(team.result == sparsecollSuccess);
      const Ranks ranks(std::move(team.comms));
      const Reducers reducers(ranks, kLength, sparsecollFloat32, preset("topka", 0.1));
      armed = true;
      const Results results = runUntilFailure(ranks, reducers, 2);
      CHECK_FALSE(armed);
      for (const sparsecollResult_t result : results)
        CHECK((result == sparsecollCorrupted || result == sparsecollPeerFailed));
    }
}

#ifdef __SANITIZE_THREAD__
constexpr int64_t kAllCalls = 10;
#else
constexpr int64_t kAllCalls = 40;
#endif

TEST_CASE("a function that fails, at whichever call") {
  for (const char* const name : {"topka", "dense", "spardl"}) {
    int failed = 0;
    for (int64_t call = 0; call < 400; call += call < kAllCalls ? 1 : 29) {
      CAPTURE(name, call);
      Mischief mischief;
      Team team(2, impatient(4000), &mischief);
      REQUIRE(team.result == sparsecollSuccess);
      const Ranks ranks(std::move(team.comms));
      const Reducers reducers(ranks, kLength, sparsecollFloat32, preset(name, name == std::string("dense") ? 0 : 0.1));
      mischief.callsUntilFailure = call;
      const Results results = runUntilFailure(ranks, reducers, 3);
      if (mischief.callsUntilFailure >= 0) continue;  // it did not come to that
      for (const sparsecollResult_t result : results)
        CHECK((isGood(result) || result == sparsecollPeerFailed || result == sparsecollTimeout));
      failed += std::ranges::all_of(results, isGood) ? 0 : 1;
    }
    CHECK(failed >= kAllCalls / 2);
  }
}

TEST_CASE("a function that fails while the communicator is made: the engine stays its maker's") {
  for (int64_t call = 0; call < 12; ++call) {
    CAPTURE(call);
    Mischief mischief;
    mischief.callsUntilFailure = call;
    Team team(2, impatient(4000), &mischief);
    if (mischief.callsUntilFailure >= 0)
      CHECK(team.result == sparsecollSuccess);
    else
      CHECK((isGood(team.result) || team.result == sparsecollPeerFailed));
    const Ranks ranks(std::move(team.comms));  // frees what was made
  }
  CHECK(pairEngineMisuse() == "");
}

// Longer than ranks that are lost are waited for.
TEST_CASE("a rank that is seconds late is waited for, and nobody is blamed") {
  for (const char* const name : {"topka", "dense"}) {
    CAPTURE(name);
    Team team(3, impatient(60000));
    REQUIRE(team.result == sparsecollSuccess);
    const Ranks ranks(std::move(team.comms));
    const Reducers reducers(ranks, kLength, sparsecollFloat32, preset(name, name == std::string("dense") ? 0 : 0.1));
    CHECK(onEach(ranks, [&](int rank, sparsecollComm_t) {
            if (rank == 2) std::this_thread::sleep_for(std::chrono::milliseconds(1500));
            return stepOf(reducers, rank);
          }) == all(3, sparsecollSuccess));
  }
}

TEST_CASE("a rank that never comes to the making: Timeout after initTimeoutMs") {
  PairMesh mesh(2);
  PairEngine engine(0, mesh.takeSockets(0));
  const sparsecollEngine_t table = engine.table();
  const sparsecollConfig_t config = impatient(300);
  sparsecollComm_t comm = nullptr;
  CHECK(sparsecollCommInitEngine(&comm, 2, 0, SPARSECOLL_HOST, &table, &config) == sparsecollTimeout);
  CHECK(comm == nullptr);
  CHECK_THAT(sparsecollGetLastError(), Catch::Contains("rank(s) 1"));
}

TEST_CASE("ranks over an engine of the caller's are not parted: nothing but the engine connects them") {
  const Ranks ranks(2);
  sparsecollComm_t made = nullptr;
  CHECK(sparsecollCommSplit(ranks[0], 0, 0, &made, nullptr) == sparsecollUnsupported);
  CHECK(sparsecollCommShrink(ranks[1], nullptr, 0, &made, nullptr) == sparsecollUnsupported);
  CHECK(made == nullptr);
  const Reducers reducers(ranks, kLength, sparsecollFloat32, preset("topka", 0.1));
  CHECK(runUntilFailure(ranks, reducers, 1) == all(2, sparsecollSuccess));
}

TEST_CASE("functions that may be NULL") {
  PairMesh mesh(2);
  std::vector<std::unique_ptr<PairEngine>> engines;
  std::vector<sparsecollComm_t> comms(2);
  for (int rank = 0; rank < 2; ++rank) engines.push_back(std::make_unique<PairEngine>(rank, mesh.takeSockets(rank)));
  Results made(2);
  RankThreads::ofProcess().run(2, [&](int rank) {
    const auto r = static_cast<size_t>(rank);
    sparsecollEngine_t table = engines[r]->table();
    table.progress = nullptr;
    table.release = nullptr;
    made[r] = sparsecollCommInitEngine(&comms[r], 2, rank, SPARSECOLL_HOST, &table, nullptr);
  });
  REQUIRE(made == all(2, sparsecollSuccess));
  {
    const Ranks ranks(std::move(comms));
    for (const char* const name : {"dense", "spardl"}) {
      const Reducers reducers(ranks, kLength, sparsecollFloat32, preset(name, name == std::string("dense") ? 0 : 0.1));
      CHECK(runUntilFailure(ranks, reducers, 3) == all(2, sparsecollSuccess));
    }
  }
  engines.clear();
}

TEST_CASE("one rank needs no engine's help") {
  PairMesh mesh(1);
  PairEngine engine(0, mesh.takeSockets(0));
  sparsecollEngine_t table = engine.table();
  table.release = nullptr;
  sparsecollComm_t comm = nullptr;
  REQUIRE(sparsecollCommInitEngine(&comm, 1, 0, SPARSECOLL_HOST, &table, nullptr) == sparsecollSuccess);
  int rank = -1, ranks = -1, device = 0;
  CHECK(sparsecollCommGetInfo(comm, &rank, &ranks, &device) == sparsecollSuccess);
  CHECK(rank == 0);
  CHECK(ranks == 1);
  CHECK(device == SPARSECOLL_HOST);
  const Ranks alone(std::vector<sparsecollComm_t>{comm});
  for (const char* const name : {"dense", "topka", "micro"}) {
    const Reducers reducers(alone, kLength, sparsecollFloat32, preset(name, name == std::string("dense") ? 0 : 0.1));
    CHECK(runUntilFailure(alone, reducers, 3) == all(1, sparsecollSuccess));
  }
}

TEST_CASE("a rank that leaves after its last step disturbs nobody who has all it needs") {
  for (const char* const name : {"topka", "dense", "gtopk"}) {
    CAPTURE(name);
    Team team(3, impatient(20000));
    REQUIRE(team.result == sparsecollSuccess);
    Ranks ranks(std::move(team.comms));
    const Reducers reducers(ranks, kLength, sparsecollFloat32, preset(name, name == std::string("dense") ? 0 : 0.1));
    Results results(3);
    std::vector<sparsecollComm_t> comms = {ranks.release(0), ranks.release(1), ranks.release(2)};
    RankThreads::ofProcess().run(3, [&](int rank) {
      const auto r = static_cast<size_t>(rank);
      for (int step = 0; step < 20; ++step)
        if (const sparsecollResult_t ran = stepOf(reducers, rank); ran != sparsecollSuccess) results[r] = ran;
      if (sparsecollCommDestroy(comms[r]) != sparsecollSuccess) results[r] = sparsecollInternalError;
    });
    CHECK(results == all(3, sparsecollSuccess));
  }
}

TEST_CASE("reducers outlive a communicator whose engine is gone") {
  Team team(2, impatient(20000));
  REQUIRE(team.result == sparsecollSuccess);
  Ranks ranks(std::move(team.comms));
  const Reducers reducers(ranks, kLength, sparsecollFloat32, preset("spardl", 0.1));
  REQUIRE(runUntilFailure(ranks, reducers, 1) == all(2, sparsecollSuccess));
  for (int rank = 0; rank < 2; ++rank) CHECK(sparsecollCommDestroy(ranks.release(rank)) == sparsecollSuccess);
  for (int rank = 0; rank < 2; ++rank) CHECK_FALSE(isGood(stepOf(reducers, rank)));
}

TEST_CASE("a step that was given up while long messages were under way leaves the next one alone") {
  Team team(4, impatient(20000));
  REQUIRE(team.result == sparsecollSuccess);
  const Ranks ranks(std::move(team.comms));
  const Reducers small(ranks, 500, sparsecollFloat32, preset("topka", 0.1));
  const Reducers large(ranks, kLength, sparsecollFloat32, preset("topka", 0.2));
  const Reducers relayed(ranks, kLength, sparsecollFloat32, preset("spardl", 0.2));
  for (int trial = 0; trial < 20; ++trial) {
    CAPTURE(trial);
    const Reducers& one = trial % 2 == 0 ? small : relayed;
    CHECK(onEach(ranks, [&](int rank, sparsecollComm_t) {
            return rank == trial % 4 ? stepOf(one, rank) : stepOf(large, rank);
          }) == all(4, sparsecollMismatch));
    for (const Reducers* const reducers : {&small, &large, &relayed})
      REQUIRE(onEach(ranks, [&](int rank, sparsecollComm_t) { return stepOf(*reducers, rank); }) ==
              all(4, sparsecollSuccess));
  }
}

TEST_CASE("a bit of what ranks show each other before a dense sum turns on the way") {
  Mischief mischief;
  std::atomic<bool> armed{false};
  mischief.spoil = [&](int, int tag, std::vector<std::byte>& bytes) {
    if (tag == 0 && armed.exchange(false)) bytes.back() ^= std::byte{1};
  };
  Team team(2, impatient(4000), &mischief);
  REQUIRE(team.result == sparsecollSuccess);
  const Ranks ranks(std::move(team.comms));
  const Reducers reducers(ranks, kLength, sparsecollFloat32, preset("dense", 0));
  armed = true;
  const Results results = runUntilFailure(ranks, reducers, 1);
  CHECK_FALSE(armed);
  CHECK(std::count(results.begin(), results.end(), sparsecollCorrupted) == 1);
}

TEST_CASE("a farewell that is damaged, or that the engine never says has left, holds nobody up for good") {
  constexpr int kNotices = 4;
  for (const bool damaged : {true, false}) {
    CAPTURE(damaged);
    Mischief mischief;
    std::atomic<int> met{0};
    mischief.spoil = [&](int, int tag, std::vector<std::byte>& bytes) {
      if (!damaged || tag != kNotices) return;
      bytes[0] ^= std::byte{1};
      ++met;
    };
    mischief.toldLate = [&](int, int tag) {
      if (damaged || tag != kNotices) return 0;
      ++met;
      return std::numeric_limits<int>::max();
    };
    sparsecollConfig_t config = impatient(4000);
    config.abortTimeoutMs = 100;
    Team team(2, config, &mischief);
    REQUIRE(team.result == sparsecollSuccess);
    Ranks ranks(std::move(team.comms));
    for (int rank = 0; rank < 2; ++rank) CHECK(sparsecollCommDestroy(ranks.release(rank)) == sparsecollSuccess);
    CHECK(met > 0);
  }
}

// An engine whose sums do not end until they are cancelled, or not even then.
namespace stuck {

struct Sum {
  std::byte* out = nullptr;
  size_t bytes = 0;
  bool cancelled = false;
};

Sum sums[2];
std::atomic<size_t> started{0};
bool heedsCancel;
sparsecollEngine_t pairs;

bool isSum(const void* request) { return request == &sums[0] || request == &sums[1]; }

int iallreduce(void*, const void*, void* out, uint64_t count, int32_t, int32_t, void** request) {
  Sum& sum = sums[started++];
  sum = {static_cast<std::byte*>(out), count * sizeof(float), false};
  *request = &sum;
  return 0;
}

int test(void* user, void** request, int* done, size_t* received) {
  if (!isSum(*request)) return pairs.test(user, request, done, received);
  *done = static_cast<Sum*>(*request)->cancelled ? 1 : 0;
  return 0;
}

int cancel(void* user, void** request) {
  if (!isSum(*request)) return pairs.cancel(user, request);
  static_cast<Sum*>(*request)->cancelled = heedsCancel;
  return 0;
}

}  // namespace stuck

TEST_CASE("the memory of tensors that are sent dense stays for as long as the engine sums in it") {
#ifdef __SANITIZE_ADDRESS__
  const bool heedsCancel = true;  // memory that the engine never lets go of is never freed, and told to be leaked
#else
  const bool heedsCancel = GENERATE(true, false);
#endif
  CAPTURE(heedsCancel);
  stuck::heedsCancel = heedsCancel;
  stuck::started = 0;
  sparsecollConfig_t config = impatient(300);
  if (!heedsCancel) config.abortTimeoutMs = 100;
  const SentDense tensors(kLength);
  PairMesh mesh(2);
  std::vector<sparsecollComm_t> comms(2);
  Results results(2);
  std::unique_ptr<PairEngine> engines[2];
  for (int rank = 0; rank < 2; ++rank) engines[rank] = std::make_unique<PairEngine>(rank, mesh.takeSockets(rank));
  stuck::pairs = engines[0]->table();
  RankThreads::ofProcess().run(2, [&](int rank) {
    const auto r = static_cast<size_t>(rank);
    sparsecollEngine_t table = engines[r]->table();
    table.iallreduce = stuck::iallreduce;
    table.test = stuck::test;
    table.cancel = stuck::cancel;
    results[r] = sparsecollCommInitEngine(&comms[r], 2, rank, SPARSECOLL_HOST, &table, &config);
    if (results[r] == sparsecollSuccess) (void)engines[r].release();
  });
  REQUIRE(results == all(2, sparsecollSuccess));
  const auto write = [] {  // what the engine may still do
    for (const stuck::Sum& sum : stuck::sums) std::fill_n(sum.out, sum.bytes, std::byte{0xff});
  };
  {
    const Ranks ranks(std::move(comms));
    {
      const Reducers reducers(ranks, kLength, sparsecollFloat32, preset("topka", 0.1), tensors.config());
      for (const sparsecollResult_t result : runUntilFailure(ranks, reducers, 1))
        CHECK((result == sparsecollTimeout || result == sparsecollPeerFailed));
    }
    REQUIRE(stuck::started == 2);
    for (const stuck::Sum& sum : stuck::sums) CHECK_FALSE(sum.cancelled);
    write();
  }
  if (!heedsCancel) write();
}

TEST_CASE("the engine was used as its rules say") { CHECK(pairEngineMisuse() == ""); }
