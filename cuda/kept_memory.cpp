#include "cuda/kept_memory.h"

#include <bit>

#include "cuda/cuda_kernels.h"

namespace sparsecoll::cuda {

namespace {

// Powers of two, so that groups of other sizes find pieces, too.
constexpr uint64_t kLeastBytes = 4096;
uint64_t lengthFor(uint64_t bytes) { return std::bit_ceil(bytes < kLeastBytes ? kLeastBytes : bytes); }

}  // namespace

std::shared_ptr<KeptMemory> KeptMemory::ofDevice(int device) {
  static std::mutex mutex;
  static std::map<int, std::weak_ptr<KeptMemory>> all;
  const std::lock_guard lock(mutex);
  if (auto known = all[device].lock()) return known;
  auto made = std::make_shared<KeptMemory>(device);
  all[device] = made;
  return made;
}

KeptMemory::~KeptMemory() {
  const OnDevice current(device_);
  const BesideCaptures beside;
  for (const auto& [bytes, data] : free_) (void)taken(cudaFree(data));
}

cudaError_t KeptMemory::take(void** data, uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto found = free_.find(lengthFor(bytes));
  if (found == free_.end()) return taken(cudaMalloc(data, lengthFor(bytes)));
  *data = found->second;
  free_.erase(found);
  return cudaSuccess;
}

void KeptMemory::give(void* data, uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  free_.emplace(lengthFor(bytes), data);
}

}  // namespace sparsecoll::cuda
