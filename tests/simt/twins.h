// Ranks on an emulated device beside ranks of the host that go through the same steps, for tests of captured ones.
#pragma once

#include <cstring>
#include <vector>

#include "tests/device/checks.h"
#include "tests/simt/simt.h"
#include "tests/support/replays.h"

namespace sparsecoll::test {

inline constexpr uint64_t kWaitMs = 60000;

// A device's group beside a host's that goes through the same steps.
class Twins {
 public:
  Twins(int ranks, uint64_t n, const sparsecollParams_t& params, const sparsecollReducerConfig_t* config = nullptr,
        const sparsecollConfig_t* ofComms = nullptr, const Devices& devices = kDevice)
      : connections_(ranks),
        host(ranks, n, sparsecollFloat32, params, config, ofComms),
        device(ranks, n, sparsecollFloat32, params, config, ofComms, devices),
        streams(ranks, devices),
        good_(static_cast<size_t>(ranks), sparsecollSuccess) {}

  bool made() const { return host.created() == good_ && device.created() == good_; }
  const Results& good() const { return good_; }
  int ranks() const { return device.count(); }

  sparsecollResult_t run(int rank, size_t vectors) {
    return sparsecollReducerRun(device.reducer(rank), gradients[vectors][static_cast<size_t>(rank)].data(),
                                outs[vectors][static_cast<size_t>(rank)].data(), streams[rank]);
  }
  // Room for the vectors of so many steps, at addresses that stay.
  void makeVectors(size_t steps) {
    gradients.assign(steps, device.gradients);
    outs.assign(steps, device.outs);
  }
  Results capture(RankGraphs& graphs, size_t first, size_t steps) {
    return onEach(device.ranks(), [&](int rank, sparsecollComm_t) {
      return captureGraph(streams[rank], &graphs[rank], [&] {
        sparsecollResult_t result = sparsecollSuccess;
        for (size_t s = first; s < first + steps && result == sparsecollSuccess; ++s) result = run(rank, s);
        return result;
      });
    });
  }
  // The same gradients for both.
  void loadGradients(size_t vectors, uint64_t seed) {
    host.fillRandom(seed);
    copyInto(gradients[vectors], host.gradients);
  }
  // New gradients for the steps; the host runs them.
  void advance(size_t first, size_t steps) {
    expected.resize(gradients.size());
    for (size_t s = first; s < first + steps; ++s) {
      loadGradients(s, seed_++);
      REQUIRE(host.step() == good_);
      expected[s] = host.outs;
    }
  }
  Results replay(RankGraphs& graphs) {
    return onEach(device.ranks(), [&](int rank, sparsecollComm_t comm) {
      if (cudaGraphLaunch(graphs[rank], streams[rank]) != cudaSuccess) return sparsecollCudaError;
      return sparsecollCommWait(comm, streams[rank], kWaitMs);
    });
  }
  Results step(size_t vectors) {
    return onEach(device.ranks(), [&](int rank, sparsecollComm_t comm) {
      const sparsecollResult_t result = run(rank, vectors);
      return result == sparsecollSuccess ? sparsecollCommWait(comm, streams[rank], kWaitMs) : result;
    });
  }
  bool same(size_t first, size_t steps) {
    for (size_t s = first; s < first + steps; ++s)
      if (!(outs[s] == expected[s])) return false;
    for (int rank = 0; rank < ranks(); ++rank) {
      const Elements here = device.residual(rank), there = host.residual(rank);
      if (!(here == there)) return false;
    }
    return true;
  }
  // A replay, and what steps would have given.
  void checkReplay(RankGraphs& graphs, size_t first, size_t steps) {
    advance(first, steps);
    REQUIRE(replay(graphs) == good_);
    REQUIRE(same(first, steps));
  }
  void checkStep(size_t vectors) {
    advance(vectors, 1);
    REQUIRE(step(vectors) == good_);
    REQUIRE(same(vectors, 1));
  }

 private:
  // Captured steps want a hardware queue for each rank, and for the library's own streams.
  struct Connections {
    explicit Connections(int ranks) { simt::needConnections(ranks + 2); }
  } connections_;

 public:
  Group host, device;
  RankStreams streams;
  std::vector<std::vector<Elements>> gradients, outs, expected;  // by step and rank

 private:
  // The same memory with other content.
  static void copyInto(std::vector<Elements>& to, const std::vector<Elements>& from) {
    for (size_t r = 0; r < to.size(); ++r) std::memcpy(to[r].data(), from[r].data(), from[r].byteCount());
  }
  Results good_;
  uint64_t seed_ = 0;
};

}  // namespace sparsecoll::test
