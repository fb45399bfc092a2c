// Short ways for the tests of the emulation.
#pragma once

#include <vector>

#include "tests/simt/simt.h"
#include "tests/support/catch.h"

namespace simt::test {

template <class... Expected, class... Actual>
cudaError_t launch(void (*kernel)(Expected...), dim3 blocks, dim3 threads, size_t sharedBytes, Actual... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = threads;
  config.dynamicSmemBytes = sharedBytes;
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

template <class T>
class Device {
 public:
  explicit Device(size_t count) : count_(count) { REQUIRE(cudaMalloc(&data_, count * sizeof(T)) == cudaSuccess); }
  explicit Device(const std::vector<T>& values) : Device(values.size()) {
    std::copy(values.begin(), values.end(), data_);
  }
  ~Device() { cudaFree(data_); }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  operator T*() const { return data_; }
  std::vector<T> values() const { return {data_, data_ + count_}; }

 private:
  T* data_ = nullptr;
  size_t count_;
};

// Round robin and twenty random orders; the process has round robin again afterwards.
template <class F>
void underSchedules(F&& test) {
  for (uint64_t seed = 0; seed <= 20; ++seed) {
    CAPTURE(seed);
    schedule(seed);
    test();
  }
  schedule(0);
}

}  // namespace simt::test
