// Aborts while steps are replayed, run and captured: nobody waits for ever, everybody is told the right thing, and what
// streams do afterwards takes nothing out of a residual.
#include <chrono>
#include <iostream>
#include <memory>
#include <random>
#include <thread>

#include "tests/simt/simt.h"
#include "tests/simt/twins.h"
#include "tests/support/wanted.h"

using namespace sparsecoll::test;

namespace {

constexpr uint64_t kUsualSeeds = 12;
constexpr int kReplays = 4;

// The residuals that a rank may have after `passes` steps with one gradient, of which the first so many took effect:
// the others have only added the gradient.
std::vector<std::vector<Elements>> residualsByStep(Group& host, int passes) {
  std::vector<std::vector<Elements>> all;
  for (int taken = 0; taken <= passes; ++taken) {
    if (taken > 0) REQUIRE(host.step() == ::sparsecoll::test::all(host.count(), sparsecollSuccess));
    std::vector<Elements> now;
    for (int rank = 0; rank < host.count(); ++rank) {
      Elements residual = host.residual(rank);
      const Elements& gradient = host.gradients[static_cast<size_t>(rank)];
      for (int pass = taken; pass < passes; ++pass)
        for (size_t i = 0; i < residual.size(); ++i)
          residual.set(i, static_cast<double>(static_cast<float>(residual[i]) + static_cast<float>(gradient[i])));
      now.push_back(std::move(residual));
    }
    all.push_back(std::move(now));
  }
  return all;
}

// While it lives, ranks are overtaken in between two looks at whether flags pass.
struct Naps {
  Naps() { simt::naps(true); }
  ~Naps() { simt::naps(false); }
};

// How many steps took effect on the rank, or -1 if it is in no state that it may be in.
int stepsTaken(const std::vector<std::vector<Elements>>& states, const Elements& residual, int rank) {
  for (size_t taken = 0; taken < states.size(); ++taken)
    if (states[taken][static_cast<size_t>(rank)] == residual) return static_cast<int>(taken);
  return -1;
}

}  // namespace

TEST_CASE("whenever a rank aborts, replays end, tell it, and take out nothing that has not arrived") {
  const Naps naps;
  for (const char* const name : {"topka", "spardl"}) {
    for (uint64_t seed = 1; seed <= seedCount(kUsualSeeds); ++seed) {
      CAPTURE(name, seed);
      std::mt19937_64 random(seed);
      Twins twins(3, 301, preset(name, 0.03));
      REQUIRE(twins.made());
      twins.makeVectors(1);
      RankGraphs graphs(3);
      REQUIRE(twins.capture(graphs, 0, 1) == twins.good());
      twins.loadGradients(0, seed);
      const auto states = residualsByStep(twins.host, kReplays);
      const int aborting = static_cast<int>(random() % 3);
      const auto delay = std::chrono::microseconds(random() % 4000);
      simt::schedule(seed);
      std::thread aborter([&] {
        std::this_thread::sleep_for(delay);
        (void)sparsecollCommAbort(twins.device.ranks()[aborting]);
      });
      const Results results = onEach(twins.device.ranks(), [&](int rank, sparsecollComm_t comm) {
        for (int replay = 0; replay < kReplays; ++replay)
          if (cudaGraphLaunch(graphs[rank], twins.streams[rank]) != cudaSuccess) return sparsecollCudaError;
        return sparsecollCommWait(comm, twins.streams[rank], kWaitMs);
      });
      aborter.join();
      simt::schedule(0);
      for (int rank = 0; rank < 3; ++rank) {
        CAPTURE(rank);
        // All may have been over before the abort came.
        const sparsecollResult_t result = results[static_cast<size_t>(rank)];
        const sparsecollResult_t failed = rank == aborting ? sparsecollAborted : sparsecollPeerFailed;
        CHECK((result == sparsecollSuccess || result == failed));
        CHECK(sparsecollCommWait(twins.device.ranks()[rank], twins.streams[rank], kWaitMs) == failed);
        CHECK(cudaStreamQuery(twins.streams[rank]) == cudaSuccess);
      }
      std::vector<int> taken;
      for (int rank = 0; rank < 3; ++rank) {
        const Elements residual = twins.device.residual(rank);
        taken.push_back(stepsTaken(states, residual, rank));
        CAPTURE(rank, taken.back());
        CHECK(taken.back() >= 0);
      }
      const auto [least, most] = std::minmax_element(taken.begin(), taken.end());
      CHECK(*most - *least <= 1);
      // Whatever is replayed now ends at once, and takes nothing out.
      std::vector<Elements> before;
      for (int rank = 0; rank < 3; ++rank) before.push_back(twins.device.residual(rank));
      CHECK(twins.replay(graphs)[static_cast<size_t>(aborting)] == sparsecollAborted);
      for (int rank = 0; rank < 3; ++rank) {
        const auto r = static_cast<size_t>(rank);
        const Elements& gradient = twins.host.gradients[r];
        for (size_t i = 0; i < before[r].size(); ++i)
          before[r].set(i, static_cast<double>(static_cast<float>(before[r][i]) + static_cast<float>(gradient[i])));
        CHECK(twins.device.residual(rank) == before[r]);
      }
      checkEmulation();
    }
  }
}

// With AddressSanitizer: memory that went back too early is written there.
TEST_CASE("what ends waits is over before memory goes back") {
  for (int ranks = 1; ranks <= 3; ++ranks) {
    CAPTURE(ranks);
    auto twins = std::make_unique<Twins>(ranks, 301, preset("topka", 0.03));
    REQUIRE(twins->made());
    twins->makeVectors(1);
    {
      RankGraphs graphs(ranks);
      REQUIRE(twins->capture(graphs, 0, 1) == twins->good());
      twins->loadGradients(0, 1);
      REQUIRE(twins->replay(graphs) == twins->good());
    }
    const simt::Lag lag;
    twins.reset();
    checkEmulation();
  }
}

TEST_CASE("an abort while ranks capture ends the captures") {
  for (uint64_t seed = 1; seed <= seedCount(kUsualSeeds); ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    Twins twins(3, 301, preset("spardl", 0.03));
    REQUIRE(twins.made());
    twins.makeVectors(1);
    RankGraphs graphs(3);
    const int aborting = static_cast<int>(random() % 3);
    const auto delay = std::chrono::microseconds(random() % 3000);
    std::thread aborter([&] {
      std::this_thread::sleep_for(delay);
      (void)sparsecollCommAbort(twins.device.ranks()[aborting]);
    });
    Results results = all(3, sparsecollSuccess);
    for (int captures = 0; captures < 8 && results == all(3, sparsecollSuccess); ++captures) {
      RankGraphs more(3);
      results = twins.capture(more, 0, 1);
    }
    aborter.join();
    for (int rank = 0; rank < 3; ++rank) {
      const sparsecollResult_t failed = rank == aborting ? sparsecollAborted : sparsecollPeerFailed;
      const sparsecollResult_t result = results[static_cast<size_t>(rank)];
      CAPTURE(rank, result);
      CHECK((result == sparsecollSuccess || result == failed));
      CHECK(sparsecollCommWait(twins.device.ranks()[rank], twins.streams[rank], kWaitMs) == failed);
    }
    checkEmulation();
  }
}

TEST_CASE("steps that are run behind captured ones end with an abort, too") {
  const Naps naps;
  for (uint64_t seed = 1; seed <= seedCount(kUsualSeeds); ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    Twins twins(3, 301, preset("topka", 0.03));
    REQUIRE(twins.made());
    twins.makeVectors(1);
    RankGraphs graphs(3);
    REQUIRE(twins.capture(graphs, 0, 1) == twins.good());
    twins.checkReplay(graphs, 0, 1);
    const int aborting = static_cast<int>(random() % 3);
    const auto delay = std::chrono::microseconds(random() % 3000);
    simt::schedule(seed);
    std::thread aborter([&] {
      std::this_thread::sleep_for(delay);
      (void)sparsecollCommAbort(twins.device.ranks()[aborting]);
    });
    const Results results = onEach(twins.device.ranks(), [&](int rank, sparsecollComm_t comm) {
      sparsecollResult_t result = sparsecollSuccess;
      for (int step = 0; step < 50 && result == sparsecollSuccess; ++step) {
        if (cudaGraphLaunch(graphs[rank], twins.streams[rank]) != cudaSuccess) return sparsecollCudaError;
        result = twins.run(rank, 0);
      }
      return result == sparsecollSuccess ? sparsecollCommWait(comm, twins.streams[rank], kWaitMs) : result;
    });
    aborter.join();
    simt::schedule(0);
    for (int rank = 0; rank < 3; ++rank) {
      CAPTURE(rank);
      const sparsecollResult_t failed = rank == aborting ? sparsecollAborted : sparsecollPeerFailed;
      const sparsecollResult_t result = results[static_cast<size_t>(rank)];
      CHECK((result == failed || result == sparsecollSuccess));
      CHECK(sparsecollCommWait(twins.device.ranks()[rank], twins.streams[rank], kWaitMs) == failed);
      CHECK(cudaStreamQuery(twins.streams[rank]) == cudaSuccess);
    }
    checkEmulation();
  }
}

TEST_CASE("a rank that leaves without its replay is told as PeerFailed, and the others' streams are free") {
  Twins twins(3, 301, preset("topka", 0.03));
  REQUIRE(twins.made());
  twins.makeVectors(1);
  RankGraphs graphs(3);
  REQUIRE(twins.capture(graphs, 0, 1) == twins.good());
  twins.checkReplay(graphs, 0, 1);
  for (int rank = 0; rank < 2; ++rank) REQUIRE(cudaGraphLaunch(graphs[rank], twins.streams[rank]) == cudaSuccess);
  CHECK(sparsecollCommDestroy(twins.device.ranks().release(2)) == sparsecollSuccess);
  for (int rank = 0; rank < 2; ++rank)
    CHECK(sparsecollCommWait(twins.device.ranks()[rank], twins.streams[rank], 100) == sparsecollPeerFailed);
  for (int rank = 0; rank < 2; ++rank)
    CHECK(sparsecollCommWait(twins.device.ranks()[rank], twins.streams[rank], kWaitMs) == sparsecollPeerFailed);
  for (int rank = 0; rank < 2; ++rank) CHECK(cudaStreamSynchronize(twins.streams[rank]) == cudaSuccess);
  checkEmulation();
}
