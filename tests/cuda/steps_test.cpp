// Steps of every preset on real devices: the bits of the host, on every rank, all of which share one. Compiled
// again with ranks over an engine of messages, where nothing can be captured, and with ranks on all devices in turn.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/cuda/device_rank.h"
#include "tests/support/presets.h"

using namespace sparsecoll::test;

namespace {

// How often graphs are replayed. compute-sanitizer makes steps a hundred times slower.
bool shorter() { return std::getenv("SPARSECOLL_TEST_SHORT") != nullptr; }

// Where ranks are, from the last device on: the first one is the current one of all threads. Ends the program as
// skipped where there are too few.
Devices devices() {
#ifdef SPARSECOLL_TEST_SEVERAL
  const int count = needDevices(2);
#else
  (void)needDevices(1);
  const int count = 1;
#endif
  std::vector<int> inTurn;
  for (int device = count; device-- > 0;) inTurn.push_back(device);
  return inTurn;
}

bool sameBits(const void* device, const Elements& expected, uint64_t bytes) {
  constexpr uint64_t kPiece = uint64_t{1} << 28;
  std::vector<std::byte> got(std::min(bytes, kPiece));
  for (uint64_t at = 0; at < bytes; at += kPiece) {
    const uint64_t length = std::min(kPiece, bytes - at);
    const auto* const from = static_cast<const std::byte*>(device) + at;
    if (cudaMemcpy(got.data(), from, length, cudaMemcpyDeviceToHost) != cudaSuccess) return false;
    if (std::memcmp(got.data(), static_cast<const std::byte*>(expected.data()) + at, length) != 0) return false;
  }
  return true;
}

// Random numbers, which take long for the longest vectors: those repeat some.
constexpr uint64_t kMostDrawn = 30000000;
void fill(std::vector<Elements>& vectors, int step) {
  const uint64_t n = vectors[0].size();
  const uint64_t drawn = std::min(n, kMostDrawn);
  std::vector<Elements> some(vectors.size(), Elements(sparsecollFloat32, drawn));
  fillRandom(some, static_cast<uint64_t>(step));
  for (size_t r = 0; r < vectors.size(); ++r)
    for (uint64_t at = 0; at < n; at += drawn)
      std::memcpy(static_cast<float*>(vectors[r].data()) + at, some[r].data(),
                  std::min(drawn, n - at) * sizeof(float));
}

void checkSteps(const std::string& name, int ranks, uint64_t n, double density, int faithful, int steps) {
  const Devices on = devices();
  CAPTURE(name, ranks, n, density, faithful);
  const Results allGood(static_cast<size_t>(ranks), sparsecollSuccess);
  const uint64_t bytes = n * sizeof(float);
  sparsecollParams_t params = preset(name.c_str(), density);
  params.faithful = faithful;
  if (Group(ranks, 1000, sparsecollFloat32, params).created()[0] == sparsecollUnsupported) return;  // on the host, too
  Group device(ranks, n, sparsecollFloat32, params, nullptr, nullptr, on);
  CAPTURE(device.ranks().why());
  REQUIRE(device.created() == allGood);
  device.gradients = device.outs = {};  // its vectors are on the device
  Group host(ranks, n, sparsecollFloat32, params);
  REQUIRE(host.created() == allGood);
  const auto own = deviceRanks(ranks, bytes, on);
  for (int step = 0; step < steps; ++step) {
    CAPTURE(step);
    fill(host.gradients, step);
    REQUIRE(host.step() == allGood);
    for (size_t r = 0; r < own.size(); ++r) own[r]->gradient.load(host.gradients[r].data());
    const Results ran = onEach(device.ranks(), [&](int rank, sparsecollComm_t comm) {
      DeviceRank& mine = *own[static_cast<size_t>(rank)];
      const sparsecollResult_t result =
          sparsecollReducerRun(device.reducer(rank), mine.gradient.data(), mine.out.data(), mine.stream);
      return told(rank, result == sparsecollSuccess ? sparsecollCommWait(comm, mine.stream, 60000) : result);
    });
    REQUIRE(ran == allGood);
    for (int rank = 0; rank < ranks; ++rank) {
      CAPTURE(rank);
      const auto r = static_cast<size_t>(rank);
      REQUIRE(sameBits(own[r]->out.data(), host.outs[r], bytes));
      void* residual = nullptr;
      uint64_t length = 0;
      sparsecollDataType_t type = sparsecollFloat32;
      REQUIRE(sparsecollReducerGetResidual(device.reducer(rank), &residual, &length, &type) == sparsecollSuccess);
      if (residual != nullptr) REQUIRE(sameBits(residual, host.residual(rank), bytes));
    }
  }
}

#ifndef SPARSECOLL_TEST_PAIRS
// `captured` steps in one graph a rank, with vectors of their own, replayed with new gradients; a step that is run
// comes in between.
void checkReplays(const std::string& name, int ranks, uint64_t n, double density, int captured, int replays) {
  const Devices on = devices();
  CAPTURE(name, ranks, n, density, captured);
  const Results allGood(static_cast<size_t>(ranks), sparsecollSuccess);
  const uint64_t bytes = n * sizeof(float);
  const sparsecollParams_t params = preset(name.c_str(), density);
  Group host(ranks, n, sparsecollFloat32, params);
  Group device(ranks, n, sparsecollFloat32, params, nullptr, nullptr, on);
  CAPTURE(device.ranks().why());
  REQUIRE(device.created() == allGood);
  const RankStreams streams(ranks, on);
  RankGraphs graphs(ranks);
  std::vector<std::vector<std::unique_ptr<DeviceRank>>> own;
  for (int step = 0; step < captured; ++step) own.push_back(deviceRanks(ranks, bytes, on));
  const auto enqueue = [&](int rank, size_t step) {
    DeviceRank& mine = *own[step][static_cast<size_t>(rank)];
    return sparsecollReducerRun(device.reducer(rank), mine.gradient.data(), mine.out.data(), streams[rank]);
  };
  REQUIRE(onEach(device.ranks(), [&](int rank, sparsecollComm_t) {
            const CurrentDevice current(on.of(rank));
            return captureGraph(streams[rank], &graphs[rank], [&] {
              sparsecollResult_t result = sparsecollSuccess;
              for (size_t s = 0; s < own.size() && result == sparsecollSuccess; ++s) result = enqueue(rank, s);
              return result;
            });
          }) == allGood);
  uint64_t seed = 0;
  std::vector<std::vector<Elements>> expected(own.size());
  const auto advance = [&](size_t steps) {
    for (size_t s = 0; s < steps; ++s) {
      host.fillRandom(seed++);
      for (size_t r = 0; r < own[s].size(); ++r) own[s][r]->gradient.load(host.gradients[r].data());
      REQUIRE(host.step() == allGood);
      expected[s] = host.outs;
    }
  };
  const auto compare = [&](size_t steps) {
    for (size_t s = 0; s < steps; ++s)
      for (size_t r = 0; r < own[s].size(); ++r) REQUIRE(sameBits(own[s][r]->out.data(), expected[s][r], bytes));
  };
  for (int replay = 0; replay < replays; ++replay) {
    CAPTURE(replay);
    advance(own.size());
    REQUIRE(onEach(device.ranks(), [&](int rank, sparsecollComm_t comm) {
              const CurrentDevice current(on.of(rank));
              const cudaError_t launched = cudaGraphLaunch(graphs[rank], streams[rank]);
              if (launched != cudaSuccess) {
                std::fprintf(stderr, "rank %d, launch: %s\n", rank, cudaGetErrorString(launched));
                return sparsecollCudaError;
              }
              return told(rank, sparsecollCommWait(comm, streams[rank], 60000));
            }) == allGood);
    compare(own.size());
    if (replay % 100 != 1) continue;
    advance(1);
    REQUIRE(onEach(device.ranks(), [&](int rank, sparsecollComm_t comm) {
              const sparsecollResult_t result = enqueue(rank, 0);
              return told(rank, result == sparsecollSuccess ? sparsecollCommWait(comm, streams[rank], 60000) : result);
            }) == allGood);
    compare(1);
  }
}
#endif

}  // namespace

TEST_CASE("every preset, default and as published, on up to eight ranks") {
  for (const std::string& name : sparsePresets()) {
    if (shorter()) {
      checkSteps(name, 3, 100003, 0.01, 0, 2);
      continue;
    }
    for (const int ranks : {1, 2, 3, 4, 8})
      for (const int faithful : {0, 1}) checkSteps(name, ranks, 300007, 0.01, faithful, 5);
  }
}

TEST_CASE("long vectors") {
  for (const char* const name : {"topka", "micro", "deft", "spardl", "sidco-e"})
    checkSteps(name, 2, 25000003, 0.001, 0, 3);
}

// 60 GiB of either memory, so it has to be asked for by its name.
TEST_CASE("indices past 2^31", "[.]") { checkSteps("topka", 2, (uint64_t{1} << 31) + 300007, 0.001, 0, 2); }

#ifdef SPARSECOLL_TEST_PAIRS
TEST_CASE("dense sums through host memory") { checkSteps("dense", 3, 5000011, 0, 0, 3); }
#else
TEST_CASE("captured steps of every preset") {
  for (const std::string& name : sparsePresets()) {
    for (const int ranks : {1, 2, 3, 4, 8}) {
      if (shorter() && ranks != 3) continue;
      checkReplays(name, ranks, 100003, 0.01, 3, shorter() ? 2 : 5);
    }
  }
}

TEST_CASE("a thousand replays of three steps") {
  checkReplays("topka", 4, 20011, 0.01, 3, shorter() ? 3 : 1000);
  checkReplays("micro", 3, 20011, 0.01, 1, shorter() ? 3 : 300);
}
#endif
