// Memory whose pieces are used again, and freed only when no more is to be had, since cudaFree and cudaFreeHost wait
// for whatever the device does, other people's work as well. It is for pinned memory of the host (calls.h), and for
// flags: a graph that waits for values in a pool's memory is refused when it is launched (CUDA 13.0 on an H200:
// cudaErrorInvalidValue).
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "cuda/objects.h"

namespace sparsecoll::cuda {

class KeptMemory {
 public:
  using Allocate = cudaError_t (*)(void** data, size_t bytes);
  using Free = cudaError_t (*)(void* data);
  KeptMemory(Allocate allocate, Free free) : allocate_(allocate), free_(free) {}
  // The device's, and the host's, as long as the process lives. Any thread, as all functions here.
  static KeptMemory& ofDevice(int device);
  static KeptMemory& ofHost();

  // On the device, which is the current one.
  cudaError_t take(void** data, uint64_t bytes);
  void give(void* data) noexcept;

 private:
  struct Piece {
    void* data;
    uint64_t bytes;
    bool taken;
  };

  bool freeUnused() noexcept;

  const Allocate allocate_;
  const Free free_;
  std::mutex mutex_;
  std::vector<Piece> pieces_;  // all that there are: as many as were ever taken at the same time
};

}  // namespace sparsecoll::cuda
