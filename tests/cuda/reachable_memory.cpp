#include "tests/cuda/reachable_memory.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory_resource>
#include <new>

namespace sparsecoll::test {

namespace {

// Pieces of one pinned allocation; throws where it has come to its end.
struct Region {
  Region(std::byte* memory, size_t bytes)
      : begin(memory), end(memory + bytes), whole(memory, bytes, std::pmr::null_memory_resource()), pool(&whole) {}
  std::byte* begin;
  std::byte* end;
  std::pmr::monotonic_buffer_resource whole;
  std::pmr::synchronized_pool_resource pool;
};

// Never destroyed: what is allocated here may outlive everything.
Region* region = nullptr;

// Before each piece, so that it can be given back without its size.
struct Head {
  size_t bytes;      // with what lies before the piece
  size_t alignment;  // which is also the distance from the pool's memory to the piece
};

}  // namespace

const char* startReachableMemory(size_t bytes) {
  void* memory = nullptr;
  if (cudaHostAlloc(&memory, bytes, cudaHostAllocPortable | cudaHostAllocMapped) != cudaSuccess) {
    (void)cudaGetLastError();
    return "no pinned memory of that size";
  }
  cudaPointerAttributes attributes{};
  if (cudaPointerGetAttributes(&attributes, memory) != cudaSuccess || attributes.devicePointer != memory) {
    (void)cudaGetLastError();
    (void)cudaFreeHost(memory);
    return "the device reaches pinned memory by other pointers than the host";
  }
  alignas(Region) static std::byte place[sizeof(Region)];
  region = new (place) Region(static_cast<std::byte*>(memory), bytes);
  return "";
}

void* takeReachable(size_t bytes, size_t alignment) {
  alignment = std::max({alignment, sizeof(Head), alignof(std::max_align_t)});
  const Head head{bytes + alignment, alignment};
  try {
    auto* const piece = static_cast<std::byte*>(region->pool.allocate(head.bytes, alignment)) + alignment;
    std::memcpy(piece - sizeof head, &head, sizeof head);
    return piece;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

void giveBackReachable(void* memory) {
  Head head;
  std::memcpy(&head, static_cast<std::byte*>(memory) - sizeof head, sizeof head);
  region->pool.deallocate(static_cast<std::byte*>(memory) - head.alignment, head.bytes, head.alignment);
}

bool isReachable(const void* memory) {
  if (region == nullptr) return false;
  const auto* const at = static_cast<const std::byte*>(memory);
  return at >= region->begin && at < region->end;
}

namespace {

void* take(size_t bytes, size_t alignment) {
  const size_t wanted = std::max<size_t>(bytes, 1);
  void* const memory = region != nullptr
                           ? takeReachable(wanted, alignment)
                           : std::aligned_alloc(alignment, (wanted + alignment - 1) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void giveBack(void* memory) {
  if (isReachable(memory))
    giveBackReachable(memory);
  else
    std::free(memory);
}

}  // namespace

}  // namespace sparsecoll::test

// The other forms call these.
void* operator new(size_t bytes) { return sparsecoll::test::take(bytes, alignof(std::max_align_t)); }
void* operator new(size_t bytes, std::align_val_t alignment) {
  return sparsecoll::test::take(bytes, static_cast<size_t>(alignment));
}
void operator delete(void* memory) noexcept { sparsecoll::test::giveBack(memory); }
void operator delete(void* memory, size_t) noexcept { sparsecoll::test::giveBack(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { sparsecoll::test::giveBack(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { sparsecoll::test::giveBack(memory); }
