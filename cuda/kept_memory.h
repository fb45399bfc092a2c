// Memory of cudaMalloc whose pieces are used again and never freed. Graphs need it: a graph that waits for values in a
// pool's memory is refused when it is launched (CUDA 13.0 on an H200: cudaErrorInvalidValue). And cudaFree waits for
// whatever the device does, other people's work as well.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "cuda/objects.h"

namespace sparsecoll::cuda {

class KeptMemory {
 public:
  // The device's, as long as the process lives. Any thread, as all functions here.
  static KeptMemory& ofDevice(int device);

  // On the device, which is the current one.
  cudaError_t take(void** data, uint64_t bytes);
  void give(void* data) noexcept;

 private:
  struct Piece {
    void* data;
    uint64_t bytes;
    bool taken;
  };

  std::mutex mutex_;
  std::vector<Piece> pieces_;  // all that there are: as many as were ever taken at the same time
};

}  // namespace sparsecoll::cuda
