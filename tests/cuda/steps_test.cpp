// Steps of every preset on a real device: the bits of the host, on every rank. All ranks share one device. Compiled
// again with ranks over an engine of messages, where nothing can be captured.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/support/catch.h"
#include "tests/support/replays.h"

using namespace sparsecoll::test;

namespace {

constexpr int kDevice = 0;

// Ends the program as skipped where there is no device.
void needDevice() {
  (void)setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);  // ranks that share a device wait for each other
  int devices = 0;
  if (cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0) return;
  std::puts("skipped: this machine has no CUDA device, or no driver for it");
  std::exit(77);
}

// How often graphs are replayed. compute-sanitizer makes steps a hundred times slower.
bool shorter() { return std::getenv("SPARSECOLL_TEST_SHORT") != nullptr; }

// A vector on the device.
class DeviceVector {
 public:
  explicit DeviceVector(uint64_t bytes) : bytes_(bytes) { REQUIRE(cudaMalloc(&data_, bytes) == cudaSuccess); }
  ~DeviceVector() { (void)cudaFree(data_); }
  DeviceVector(const DeviceVector&) = delete;
  DeviceVector& operator=(const DeviceVector&) = delete;
  void* data() const { return data_; }
  void load(const void* from) { CHECK(cudaMemcpy(data_, from, bytes_, cudaMemcpyHostToDevice) == cudaSuccess); }
  void store(void* to) const { CHECK(cudaMemcpy(to, data_, bytes_, cudaMemcpyDeviceToHost) == cudaSuccess); }

 private:
  uint64_t bytes_;
  void* data_ = nullptr;
};

// A rank's stream and vectors.
struct DeviceRank {
  explicit DeviceRank(uint64_t bytes) : gradient(bytes), out(bytes) {
    REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  }
  ~DeviceRank() { (void)cudaStreamDestroy(stream); }
  DeviceVector gradient, out;
  cudaStream_t stream = nullptr;
};

bool sameBits(const void* device, const Elements& expected, uint64_t bytes) {
  std::vector<std::byte> got(bytes);
  return cudaMemcpy(got.data(), device, bytes, cudaMemcpyDeviceToHost) == cudaSuccess &&
         std::memcmp(got.data(), expected.data(), bytes) == 0;
}

void checkSteps(const std::string& name, int ranks, uint64_t n, double density, int faithful, int steps) {
  CAPTURE(name, ranks, n, density, faithful);
  const Results allGood(static_cast<size_t>(ranks), sparsecollSuccess);
  const uint64_t bytes = n * sizeof(float);
  sparsecollParams_t params = preset(name.c_str(), density);
  params.faithful = faithful;
  Group host(ranks, n, sparsecollFloat32, params);
  if (host.created()[0] == sparsecollUnsupported) return;
  Group device(ranks, n, sparsecollFloat32, params, nullptr, nullptr, kDevice);
  REQUIRE(device.created() == allGood);
  std::vector<std::unique_ptr<DeviceRank>> own;
  for (int rank = 0; rank < ranks; ++rank) own.push_back(std::make_unique<DeviceRank>(bytes));
  for (int step = 0; step < steps; ++step) {
    CAPTURE(step);
    host.fillRandom(static_cast<uint64_t>(step));
    REQUIRE(host.step() == allGood);
    for (size_t r = 0; r < own.size(); ++r) own[r]->gradient.load(host.gradients[r].data());
    const Results ran = onEach(device.ranks(), [&](int rank, sparsecollComm_t comm) {
      DeviceRank& mine = *own[static_cast<size_t>(rank)];
      const sparsecollResult_t result =
          sparsecollReducerRun(device.reducer(rank), mine.gradient.data(), mine.out.data(), mine.stream);
      return result == sparsecollSuccess ? sparsecollCommWait(comm, mine.stream, 60000) : result;
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
  CAPTURE(name, ranks, n, density, captured);
  const Results allGood(static_cast<size_t>(ranks), sparsecollSuccess);
  const uint64_t bytes = n * sizeof(float);
  const sparsecollParams_t params = preset(name.c_str(), density);
  Group host(ranks, n, sparsecollFloat32, params);
  Group device(ranks, n, sparsecollFloat32, params, nullptr, nullptr, kDevice);
  REQUIRE(device.created() == allGood);
  const RankStreams streams(ranks);
  RankGraphs graphs(ranks);
  std::vector<std::vector<std::unique_ptr<DeviceRank>>> own(static_cast<size_t>(captured));
  for (auto& step : own)
    for (int rank = 0; rank < ranks; ++rank) step.push_back(std::make_unique<DeviceRank>(bytes));
  const auto enqueue = [&](int rank, size_t step) {
    DeviceRank& mine = *own[step][static_cast<size_t>(rank)];
    return sparsecollReducerRun(device.reducer(rank), mine.gradient.data(), mine.out.data(), streams[rank]);
  };
  REQUIRE(onEach(device.ranks(), [&](int rank, sparsecollComm_t) {
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
              if (cudaGraphLaunch(graphs[rank], streams[rank]) != cudaSuccess) return sparsecollCudaError;
              return sparsecollCommWait(comm, streams[rank], 60000);
            }) == allGood);
    compare(own.size());
    if (replay % 100 != 1) continue;
    advance(1);
    REQUIRE(onEach(device.ranks(), [&](int rank, sparsecollComm_t comm) {
              const sparsecollResult_t result = enqueue(rank, 0);
              return result == sparsecollSuccess ? sparsecollCommWait(comm, streams[rank], 60000) : result;
            }) == allGood);
    compare(1);
  }
}
#endif

}  // namespace

TEST_CASE("every preset, default and as published, on up to eight ranks") {
  needDevice();
  for (uint32_t i = 0; sparsecollPresetName(i) != nullptr; ++i) {
    const std::string name = sparsecollPresetName(i);
    if (name == "dense") continue;
    if (shorter()) {
      checkSteps(name, 3, 100003, 0.01, 0, 2);
      continue;
    }
    for (const int ranks : {1, 2, 3, 4, 8})
      for (const int faithful : {0, 1}) checkSteps(name, ranks, 300007, 0.01, faithful, 5);
  }
}

TEST_CASE("long vectors") {
  needDevice();
  for (const char* const name : {"topka", "micro", "deft", "spardl", "sidco-e"})
    checkSteps(name, 2, 25000003, 0.001, 0, 3);
}

#ifdef SPARSECOLL_TEST_PAIRS
TEST_CASE("dense sums through host memory") {
  needDevice();
  checkSteps("dense", 3, 5000011, 0, 0, 3);
}
#else
TEST_CASE("captured steps of every preset") {
  needDevice();
  for (uint32_t i = 0; sparsecollPresetName(i) != nullptr; ++i) {
    const std::string name = sparsecollPresetName(i);
    if (name == "dense") continue;
    for (const int ranks : {1, 2, 3, 4, 8}) {
      if (shorter() && ranks != 3) continue;
      checkReplays(name, ranks, 100003, 0.01, 3, shorter() ? 2 : 5);
    }
  }
}

TEST_CASE("a thousand replays of three steps") {
  needDevice();
  checkReplays("topka", 4, 20011, 0.01, 3, shorter() ? 3 : 1000);
  checkReplays("micro", 3, 20011, 0.01, 1, shorter() ? 3 : 300);
}
#endif
