// Memory of cudaMalloc whose pieces are used again. Graphs need it: a graph that waits for values in a pool's memory is
// refused when it is launched (CUDA 13.0 on an H200: cudaErrorInvalidValue). And what cudaMalloc gave goes back with the
// last group on the device only, since cudaFree waits for whatever the device does.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "core/status.h"
#include "cuda/objects.h"

namespace sparsecoll::cuda {

class KeptMemory {
 public:
  explicit KeptMemory(int device) : device_(device) {}
  // Frees what has come back. What has not stays for ever.
  ~KeptMemory();
  KeptMemory(const KeptMemory&) = delete;
  KeptMemory& operator=(const KeptMemory&) = delete;

  // The device's, which lives as long as somebody holds it. Any thread, as all functions here.
  static std::shared_ptr<KeptMemory> ofDevice(int device);

  cudaError_t take(void** data, uint64_t bytes);
  void give(void* data, uint64_t bytes);

 private:
  const int device_;
  std::mutex mutex_;
  std::multimap<uint64_t, void*> free_;  // by their length
};

}  // namespace sparsecoll::cuda
