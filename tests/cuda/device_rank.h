// What tests on a real device have for a rank there.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/replays.h"

namespace sparsecoll::test {

// Ends the program as skipped where there are fewer devices. Returns how many there are.
inline int needDevices(int least) {
  (void)setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);  // ranks that share a device wait for each other
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess) devices = 0;
  if (devices >= least) return devices;
  if (devices == 0)
    std::puts("skipped: this machine has no CUDA device, or no driver for it");
  else
    std::printf("skipped: this machine has %d CUDA device, not %d\n", devices, least);
  std::exit(77);
}

// The result of a call of a rank, on whose thread this says what was wrong.
inline sparsecollResult_t told(int rank, sparsecollResult_t result) {
  if (result != sparsecollSuccess) std::fprintf(stderr, "rank %d: %s\n", rank, sparsecollGetLastError());
  return result;
}

// A vector on the device that is current when it is made.
class DeviceVector {
 public:
  explicit DeviceVector(uint64_t bytes) : bytes_(bytes) { REQUIRE(cudaMalloc(&data_, bytes) == cudaSuccess); }
  ~DeviceVector() { (void)cudaFree(data_); }
  DeviceVector(const DeviceVector&) = delete;
  DeviceVector& operator=(const DeviceVector&) = delete;
  void* data() const { return data_; }
  // When it returns the bytes are there, for streams that wait for no other, too.
  void load(const void* from) {
    CHECK(cudaMemcpy(data_, from, bytes_, cudaMemcpyHostToDevice) == cudaSuccess);
    CHECK(cudaStreamSynchronize(nullptr) == cudaSuccess);
  }
  void store(void* to) const { CHECK(cudaMemcpy(to, data_, bytes_, cudaMemcpyDeviceToHost) == cudaSuccess); }

 private:
  uint64_t bytes_;
  void* data_ = nullptr;
};

// A rank's stream and vectors, made on the current device.
struct DeviceRank {
  explicit DeviceRank(uint64_t bytes) : gradient(bytes), out(bytes) {
    REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  }
  ~DeviceRank() { (void)cudaStreamDestroy(stream); }
  DeviceVector gradient, out;
  cudaStream_t stream = nullptr;
};

// One a rank, each on its device.
inline std::vector<std::unique_ptr<DeviceRank>> deviceRanks(int ranks, uint64_t bytes, const Devices& devices) {
  std::vector<std::unique_ptr<DeviceRank>> all;
  for (int rank = 0; rank < ranks; ++rank) {
    const CurrentDevice current(devices.of(rank));
    all.push_back(std::make_unique<DeviceRank>(bytes));
  }
  return all;
}

}  // namespace sparsecoll::test
