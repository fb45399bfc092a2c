// Abort from any thread at any moment (T43): every call returns, a step that reports success has the right sum, and
// memory of callers is theirs again as soon as their call has returned.
#include "tests/support/catch.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <iostream>

#include "tests/support/group.h"

using namespace sparsecoll::test;

namespace {

#if defined(SPARSECOLL_TEST_SANITIZED) && defined(SPARSECOLL_TEST_PAIRS)
constexpr int kTrials = 20;
#elif defined(__SANITIZE_THREAD__)
constexpr int kTrials = 30;
#elif defined(SPARSECOLL_TEST_SANITIZED)
constexpr int kTrials = 60;
#else
constexpr int kTrials = 200;
#endif

bool mayEndWith(sparsecollResult_t result) { return result == sparsecollAborted || result == sparsecollPeerFailed; }

// Gradients of three steps, which come again and again, and their sums; small integers, so exact in any order.
struct Patterns {
  Patterns(size_t ranks, uint64_t n)
      : gradients(ranks, std::vector<std::vector<float>>(3)), sums(3, std::vector<float>(n)) {
    for (size_t step = 0; step < 3; ++step)
      for (size_t r = 0; r < ranks; ++r) {
        gradients[r][step].resize(n);
        for (uint64_t i = 0; i < n; ++i)
          sums[step][i] += gradients[r][step][i] = static_cast<float>((r + 1) * (i % 5 + 1) + step);
      }
  }
  std::vector<std::vector<std::vector<float>>> gradients;  // by rank, then step
  std::vector<std::vector<float>> sums;
};

struct Shape {
  const char* name;
  const char* preset;
  double density;
  int ranks;
  uint64_t n;
  bool exact;  // everything is sent, so that out is known
};

constexpr Shape kShapes[] = {
    {"dense, 2 ranks", "dense", 0, 2, 200000, true},     {"dense, 3 ranks", "dense", 0, 3, 400000, true},
    {"dense, 4 ranks", "dense", 0, 4, 50000, true},      {"dense, 16 ranks", "dense", 0, 16, 40000, true},
    {"topka all", "topka", 1, 3, 20000, true},           {"topka", "topka", 0.01, 4, 50000, false},
    {"threshold", "threshold", 0.01, 3, 20000, false},   {"micro", "micro", 0.02, 4, 20000, false},
    {"micro, 16 ranks", "micro", 0.02, 16, 5000, false},
};

struct Trial {
  std::vector<sparsecollResult_t> last;
  std::vector<uint64_t> steps;
  std::atomic<uint64_t> wrongSums{0};
  std::atomic<int> running{0};
};

// Steps until one fails; vectors live on the heap for one step only, so a peer that still uses them is found out.
void runUntilFailure(const Patterns& patterns, bool exact, size_t rank, sparsecollReducer_t reducer, Trial& trial) {
  ++trial.running;
  for (uint64_t step = 0;; ++step) {
    const auto gradient = std::make_unique<std::vector<float>>(patterns.gradients[rank][step % 3]);
    const auto out = std::make_unique<std::vector<float>>(gradient->size());
    trial.last[rank] = sparsecollReducerRun(reducer, gradient->data(), out->data(), nullptr);
    trial.steps[rank] = step;
    if (trial.last[rank] != sparsecollSuccess) return;
    if (exact && *out != patterns.sums[step % 3]) ++trial.wrongSums;
  }
}

// aborters: how many threads abort, each a rank of its own choice, at their own random moments.
void runTrials(const Shape& shape, int trials, int aborters) {
  CAPTURE(shape.name, aborters);
  uint64_t wrongSums = 0;
  uint64_t badEnds = 0;
  uint64_t stepsDone = 0;
  const Patterns patterns(static_cast<size_t>(shape.ranks), shape.n);
  for (int trial = 0; trial < trials; ++trial) {
    Group group(shape.ranks, shape.n, sparsecollFloat32, preset(shape.preset, shape.density));
    REQUIRE(group.created() == all(shape.ranks, sparsecollSuccess));
    Trial state;
    state.last.resize(static_cast<size_t>(shape.ranks), sparsecollInternalError);
    state.steps.resize(state.last.size());
    std::vector<std::thread> threads;
    for (int a = 0; a < aborters; ++a)
      threads.emplace_back([&, a] {
        Random random(static_cast<uint64_t>(trial * 16 + a) * 7919 + shape.n);
        while (state.running < shape.ranks) std::this_thread::yield();
        const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(random.below(6000));
        while (std::chrono::steady_clock::now() < until) std::this_thread::yield();
        (void)sparsecollCommAbort(group.ranks()[static_cast<int>(random.below(static_cast<uint64_t>(shape.ranks)))]);
      });
    group.ranks().run([&](int rank, sparsecollComm_t) {
      runUntilFailure(patterns, shape.exact, static_cast<size_t>(rank), group.reducer(rank), state);
    });
    for (std::thread& thread : threads) thread.join();
    for (const sparsecollResult_t result : state.last) badEnds += mayEndWith(result) ? 0 : 1;
    for (const uint64_t steps : state.steps) stepsDone += steps;
    wrongSums += state.wrongSums;
  }
  CHECK(wrongSums == 0);
  CHECK(badEnds == 0);
  std::cout << shape.name << ": " << trials << " aborts by " << aborters << " thread(s), " << stepsDone
            << " steps done before them\n";
}

}  // namespace

TEST_CASE("abort at random moments while dense steps run") {
  for (const Shape& shape : kShapes)
    if (shape.preset == std::string("dense")) runTrials(shape, shape.ranks > 4 ? kTrials / 10 : kTrials, 1);
}

TEST_CASE("abort at random moments while sparse steps run") {
  for (const Shape& shape : kShapes)
    if (shape.preset != std::string("dense")) runTrials(shape, shape.ranks > 4 ? kTrials / 10 : kTrials / 2, 1);
}

TEST_CASE("abort from several threads at once") {
  for (const Shape& shape : kShapes) runTrials(shape, kTrials / 10, 4);
}

namespace {

// Ranks do the same again and again until it fails on one, which an abort at a random moment sees to (T44).
void abortWhile(const char* what, const std::function<sparsecollResult_t(int, sparsecollComm_t)>& once) {
  CAPTURE(what);
  sparsecollConfig_t config = SPARSECOLL_INIT(sparsecollConfig_t);
  config.initTimeoutMs = config.opTimeoutMs = SPARSECOLL_NO_TIMEOUT;
  constexpr int kRanks = 3;
  uint64_t done = 0;
  for (int trial = 0; trial < kTrials / 2; ++trial) {
    CAPTURE(trial);
    const Ranks ranks(kRanks, &config);
    const int aborted = trial % kRanks;
    std::atomic<int> running{0};
    std::atomic<uint64_t> rounds{0};
    std::thread aborter([&] {
      Random random(static_cast<uint64_t>(trial) * 7919);
      while (running < kRanks) std::this_thread::yield();
      const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(random.below(2000));
      while (std::chrono::steady_clock::now() < until) std::this_thread::yield();
      (void)sparsecollCommAbort(ranks[aborted]);
    });
    const Results results = onEach(ranks, [&](int rank, sparsecollComm_t comm) {
      ++running;
      for (;; ++rounds)
        if (const sparsecollResult_t result = once(rank, comm); result != sparsecollSuccess) return result;
    });
    aborter.join();
    done += rounds;
    for (int rank = 0; rank < kRanks; ++rank) {
      CAPTURE(rank, aborted);
      CHECK(results[static_cast<size_t>(rank)] == (rank == aborted ? sparsecollAborted : sparsecollPeerFailed));
#ifndef SPARSECOLL_TEST_PAIRS  // engines of callers may know no more than who was the first to be silent
      const sparsecollFailure_t failure = failureOf(ranks[rank]);
      const bool onlyMet = failure.result == sparsecollSuccess;  // in CommSplit: the communicator has not noticed yet
      CHECK((onlyMet || failure.peer == (rank == aborted ? -1 : aborted)));
#endif
    }
  }
  std::cout << what << ": " << kTrials / 2 << " aborts, " << done << " calls done before them\n";
}

}  // namespace

TEST_CASE("abort at random moments while ranks make reducers") {
  for (const char* const name : {"dense", "topka", "micro"}) {
    const sparsecollParams_t params = preset(name, name == std::string("dense") ? 0 : 0.1);
    abortWhile(name, [&](int, sparsecollComm_t comm) {
      sparsecollReducer_t reducer = nullptr;
      const sparsecollResult_t result =
          sparsecollReducerCreate(&reducer, 1000, sparsecollFloat32, &params, nullptr, comm);
      if (result != sparsecollSuccess) return reducer == nullptr ? result : sparsecollInternalError;
      return sparsecollReducerDestroy(reducer);
    });
  }
}

#ifndef SPARSECOLL_TEST_PAIRS  // ranks over an engine of the caller's have no CommSplit
TEST_CASE("abort at random moments while ranks meet anew") {
  abortWhile("CommSplit", [](int rank, sparsecollComm_t comm) {
    sparsecollComm_t made = nullptr;
    const sparsecollResult_t result = sparsecollCommSplit(comm, rank % 2, 0, &made, nullptr);
    if (result != sparsecollSuccess) return made == nullptr ? result : sparsecollInternalError;
    return sparsecollCommDestroy(made);
  });
}
#endif

TEST_CASE("abort ends a wait that has no deadline") {
  sparsecollConfig_t config = SPARSECOLL_INIT(sparsecollConfig_t);
  config.opTimeoutMs = SPARSECOLL_NO_TIMEOUT;
  for (const int aborted : {0, 1})
    for (const char* const name : {"dense", "topka", "micro"}) {
      CAPTURE(aborted, name);
      Group group(2, 100, sparsecollFloat32, preset(name, name == std::string("dense") ? 0 : 0.1), nullptr, &config);
      std::atomic<bool> waits{false};
      const Results results = group.each([&](int rank, sparsecollReducer_t reducer) {
        if (rank == 0) {
          waits = true;
          return sparsecollReducerRun(reducer, group.gradients[0].data(), group.outs[0].data(), nullptr);
        }
        while (!waits) std::this_thread::yield();
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        return sparsecollCommAbort(group.ranks()[aborted]);
      });
      CHECK(results == Results{aborted == 0 ? sparsecollAborted : sparsecollPeerFailed, sparsecollSuccess});
      const sparsecollFailure_t failure = failureOf(group.ranks()[0]);
      CHECK(failure.peer == (aborted == 0 ? -1 : 1));
    }
}

// The rank that waits has all that the aborted one had to send.
TEST_CASE("abort ends a wait for a third rank") {
  sparsecollConfig_t config = SPARSECOLL_INIT(sparsecollConfig_t);
  config.opTimeoutMs = SPARSECOLL_NO_TIMEOUT;
  for (const char* const name : {"dense", "topka", "spardl", "oktopk", "gtopk"}) {
    CAPTURE(name);
    Group group(3, 100, sparsecollFloat32, preset(name, name == std::string("dense") ? 0 : 0.1), nullptr, &config);
    REQUIRE(group.created() == all(3, sparsecollSuccess));
    std::atomic<int> waiting{0};
    const Results results = group.each([&](int rank, sparsecollReducer_t reducer) {
      const auto r = static_cast<size_t>(rank);
      if (rank < 2) {
        ++waiting;
        return sparsecollReducerRun(reducer, group.gradients[r].data(), group.outs[r].data(), nullptr);
      }
      while (waiting < 2) std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      return sparsecollCommAbort(group.ranks()[0]);
    });
    CHECK(results == Results{sparsecollAborted, sparsecollPeerFailed, sparsecollSuccess});
    CHECK(failureOf(group.ranks()[1]).peer == 0);
  }
}

TEST_CASE("abort before use, and again") {
  Ranks ranks(2);
  for (int time = 0; time < 3; ++time) CHECK(sparsecollCommAbort(ranks[0]) == sparsecollSuccess);
  sparsecollResult_t state = sparsecollSuccess;
  CHECK(sparsecollCommGetAsyncError(ranks[0], &state) == sparsecollSuccess);
  CHECK(state == sparsecollAborted);
  CHECK(failureOf(ranks[0]).result == sparsecollAborted);
  const sparsecollParams_t params = preset("topka", 0.1);
  const Results results = onEach(ranks, [&](int, sparsecollComm_t comm) {
    sparsecollReducer_t reducer = nullptr;
    return sparsecollReducerCreate(&reducer, 100, sparsecollFloat32, &params, nullptr, comm);
  });
  CHECK(results == Results{sparsecollAborted, sparsecollPeerFailed});
  CHECK(failureOf(ranks[1]).peer == 0);
  CHECK(sparsecollCommDestroy(ranks.release(0)) == sparsecollSuccess);
  CHECK(sparsecollCommDestroy(ranks.release(1)) == sparsecollSuccess);
}

TEST_CASE("abort races with destroy") {
  for (int trial = 0; trial < kTrials; ++trial) {
    Ranks ranks(2);
    const sparsecollComm_t comm = ranks.release(0);
    std::atomic<int> ready{0};
    std::atomic<int> bad{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t)
      threads.emplace_back([&] {
        ++ready;
        while (ready < 4) std::this_thread::yield();
        const sparsecollResult_t result = sparsecollCommAbort(comm);
        sparsecollResult_t state = sparsecollSuccess;
        (void)(sparsecollCommGetAsyncError(comm, &state) == sparsecollSuccess);
        if (result != sparsecollSuccess && result != sparsecollInvalidUsage) ++bad;
      });
    ++ready;
    while (ready < 4) std::this_thread::yield();
    CHECK(sparsecollCommDestroy(comm) == sparsecollSuccess);
    for (std::thread& thread : threads) thread.join();
    CHECK(bad == 0);
  }
}

TEST_CASE("after an abort reducers and communicators are destroyed in any order") {
  for (const char* const name : {"dense", "topka", "micro"})
    for (int order = 0; order < 24; ++order) {
      CAPTURE(name, order);
      const sparsecollParams_t params = preset(name, name == std::string("dense") ? 0 : 0.1);
      Ranks ranks(2);
      std::vector<sparsecollReducer_t> reducers(2);
      REQUIRE(onEach(ranks, [&](int rank, sparsecollComm_t comm) {
                const auto r = static_cast<size_t>(rank);
                std::vector<float> vector(100, 1.0f);
                const sparsecollResult_t result =
                    sparsecollReducerCreate(&reducers[r], 100, sparsecollFloat32, &params, nullptr, comm);
                if (result != sparsecollSuccess) return result;
                return sparsecollReducerRun(reducers[r], vector.data(), vector.data(), nullptr);
              }) == all(2, sparsecollSuccess));
      if (order % 2 == 0) CHECK(sparsecollCommAbort(ranks[order / 2 % 2]) == sparsecollSuccess);
      // The order-th permutation of two communicators and two reducers.
      std::vector<int> left{0, 1, 2, 3};
      int code = order;
      for (int size = 4; size > 0; --size) {
        const auto at = left.begin() + code % size;
        code /= size;
        const int which = *at;
        left.erase(at);
        if (which < 2)
          CHECK(sparsecollCommDestroy(ranks.release(which)) == sparsecollSuccess);
        else
          CHECK(sparsecollReducerDestroy(reducers[static_cast<size_t>(which - 2)]) == sparsecollSuccess);
      }
    }
}
