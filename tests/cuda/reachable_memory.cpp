#include "tests/cuda/reachable_memory.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <memory_resource>
#include <new>

namespace sparsecoll::test {

namespace {

constexpr size_t kLargestPooled = size_t{4} << 20;  // larger ones are used once

// Pieces of one pinned allocation; throws where it has come to its end.
struct Region {
  Region(std::byte* memory, size_t bytes)
      : begin(memory),
        end(memory + bytes),
        whole(memory, bytes, std::pmr::null_memory_resource()),
        pool({0, kLargestPooled}, &whole) {}
  std::byte* begin;
  std::byte* end;
  std::pmr::monotonic_buffer_resource whole;
  std::pmr::synchronized_pool_resource pool;
};

// Never destroyed: what is allocated here may outlive everything.
Region* region = nullptr;

// Before each piece: what was taken for it. The pool's own alignment is no more than the usual one.
struct Head {
  void* taken;
  size_t bytes;       // taken
  size_t pieceBytes;  // of them asked for
};

// Behind each piece. To a checker of memory all pieces are one allocation, so what is written past them shows here.
constexpr size_t kMarks = 64;
constexpr int kMark = 0x5c;

void checkMarks(const std::byte* piece, size_t bytes) {
  const std::byte* const marks = piece + bytes;
  if (std::all_of(marks, marks + kMarks, [](std::byte mark) { return mark == std::byte{kMark}; })) return;
  std::fprintf(stderr, "something was written behind a piece of %zu bytes\n", bytes);
  std::abort();
}

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
  Head head{nullptr, sizeof head + alignment + bytes + kMarks, bytes};
  try {
    head.taken = region->pool.allocate(head.bytes, alignof(std::max_align_t));
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
  void* at = static_cast<std::byte*>(head.taken) + sizeof head;
  size_t room = head.bytes - sizeof head;
  auto* const piece = static_cast<std::byte*>(std::align(alignment, bytes + kMarks, at, room));
  std::memcpy(piece - sizeof head, &head, sizeof head);
  std::memset(piece + bytes, kMark, kMarks);
  return piece;
}

void giveBackReachable(void* memory) {
  Head head;
  std::memcpy(&head, static_cast<std::byte*>(memory) - sizeof head, sizeof head);
  checkMarks(static_cast<std::byte*>(memory), head.pieceBytes);
  region->pool.deallocate(head.taken, head.bytes, alignof(std::max_align_t));
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
