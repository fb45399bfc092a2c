#include "cuda/kept_memory.h"

#include <algorithm>
#include <bit>
#include <map>

#include "core/checked.h"
#include "cuda/calls.h"

namespace sparsecoll::cuda {

namespace {

constexpr uint64_t kLeastBytes = 4096;

// Eighths of powers of two, so that others, of about the same length, find pieces, too.
uint64_t lengthOf(uint64_t bytes) {
  const uint64_t step = std::bit_floor(std::max(bytes, kLeastBytes)) / 8;
  return alignUp(std::max(bytes, kLeastBytes), step);
}

cudaError_t allocateOnDevice(void** data, size_t bytes) { return taken(cudaMalloc(data, bytes)); }
cudaError_t allocateOnHost(void** data, size_t bytes) {
  return taken(cudaHostAlloc(data, bytes, cudaHostAllocPortable | cudaHostAllocMapped));
}

}  // namespace

KeptMemory& KeptMemory::ofDevice(int device) {
  static std::mutex mutex;
  static auto& all = *new std::map<int, KeptMemory>;  // never destroyed: the runtime may be gone by then
  const std::lock_guard lock(mutex);
  return all.try_emplace(device, allocateOnDevice, &cudaFree).first->second;
}

KeptMemory& KeptMemory::ofHost() {
  static auto& memory = *new KeptMemory(allocateOnHost, &cudaFreeHost);
  return memory;
}

cudaError_t KeptMemory::take(void** data, uint64_t bytes) {
  const uint64_t length = lengthOf(bytes);
  const std::lock_guard lock(mutex_);
  for (Piece& piece : pieces_) {
    if (piece.taken || piece.bytes != length) continue;
    piece.taken = true;
    *data = piece.data;
    return cudaSuccess;
  }
  pieces_.push_back({nullptr, length, true});
  cudaError_t error = allocate_(data, length);
  if (error == cudaErrorMemoryAllocation && freeUnused()) error = allocate_(data, length);
  pieces_.back().data = *data;
  if (error != cudaSuccess) pieces_.pop_back();
  return error;
}

// Whether there was any.
bool KeptMemory::freeUnused() noexcept {
  for (const Piece& piece : pieces_)
    if (!piece.taken) (void)taken(free_(piece.data));
  return std::erase_if(pieces_, [](const Piece& piece) { return !piece.taken; }) != 0;
}

void KeptMemory::give(void* data) noexcept {
  const std::lock_guard lock(mutex_);
  for (Piece& piece : pieces_)
    if (piece.data == data) piece.taken = false;
}

cudaError_t takePinned(void** data, uint64_t bytes) { return KeptMemory::ofHost().take(data, bytes); }
void givePinned(void* data) noexcept { KeptMemory::ofHost().give(data); }

}  // namespace sparsecoll::cuda
