// Steps of every preset on a real device: the bits of the host, on every rank. All ranks share one device.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/support/catch.h"
#include "tests/support/group.h"

using namespace sparsecoll::test;

namespace {

constexpr int kDevice = 0;

// Ends the program as skipped where there is no device.
void needDevice() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0) return;
  std::puts("skipped: this machine has no CUDA device, or no driver for it");
  std::exit(77);
}

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

}  // namespace

TEST_CASE("every preset, default and as published, on up to eight ranks") {
  needDevice();
  // compute-sanitizer makes steps a hundred times slower.
  const bool shorter = std::getenv("SPARSECOLL_TEST_SHORT") != nullptr;
  for (uint32_t i = 0; sparsecollPresetName(i) != nullptr; ++i) {
    const std::string name = sparsecollPresetName(i);
    if (name == "dense") continue;
    if (shorter) {
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
