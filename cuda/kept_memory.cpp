#include "cuda/kept_memory.h"

#include <bit>
#include <map>

namespace sparsecoll::cuda {

namespace {

// Powers of two, so that groups of other sizes find pieces, too.
constexpr uint64_t kLeastBytes = 4096;

}  // namespace

KeptMemory& KeptMemory::ofDevice(int device) {
  static std::mutex mutex;
  static auto& all = *new std::map<int, KeptMemory>;  // never destroyed: the runtime may be gone by then
  const std::lock_guard lock(mutex);
  return all[device];
}

cudaError_t KeptMemory::take(void** data, uint64_t bytes) {
  const uint64_t length = std::bit_ceil(bytes < kLeastBytes ? kLeastBytes : bytes);
  const std::lock_guard lock(mutex_);
  for (Piece& piece : pieces_) {
    if (piece.taken || piece.bytes != length) continue;
    piece.taken = true;
    *data = piece.data;
    return cudaSuccess;
  }
  pieces_.push_back({nullptr, length, true});
  const cudaError_t error = taken(cudaMalloc(data, length));
  pieces_.back().data = *data;
  if (error != cudaSuccess) pieces_.pop_back();
  return error;
}

void KeptMemory::give(void* data) noexcept {
  const std::lock_guard lock(mutex_);
  for (Piece& piece : pieces_)
    if (piece.data == data) piece.taken = false;
}

}  // namespace sparsecoll::cuda
