#include "tests/cuda/reachable_memory.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <new>

namespace sparsecoll::test {

namespace {

constexpr size_t kLargestPooled = size_t{64} << 10;  // larger ones are looked for among what is free

// Ranges of one allocation: the first free one that is large enough. What comes back joins its neighbours. Throws where
// there is none.
class Ranges final : public std::pmr::memory_resource {
 public:
  Ranges(std::byte* memory, size_t bytes) { before_.next = new (memory) Free{bytes / kGrain * kGrain, nullptr}; }

 private:
  // Stands in the range itself; in the order of addresses.
  struct Free {
    size_t bytes;
    Free* next;
  };
  static constexpr size_t kGrain = 64;
  static_assert(sizeof(Free) <= kGrain);

  static size_t grains(size_t bytes) { return (bytes + kGrain - 1) / kGrain * kGrain; }
  static std::byte* endOf(Free* range) { return reinterpret_cast<std::byte*>(range) + range->bytes; }

  void* do_allocate(size_t wanted, size_t alignment) override {
    const size_t bytes = grains(wanted);
    const std::lock_guard lock(mutex_);
    for (Free* before = &before_; before->next != nullptr; before = before->next) {
      Free* const range = before->next;
      void* at = range;
      size_t room = range->bytes;
      if (std::align(std::max(alignment, kGrain), bytes, at, room) == nullptr) continue;
      Free* after = range->next;
      if (room > bytes) after = new (static_cast<std::byte*>(at) + bytes) Free{room - bytes, after};
      if (room < range->bytes) {
        *range = {range->bytes - room, after};
        after = range;
      }
      before->next = after;
      return at;
    }
    throw std::bad_alloc();
  }

  void do_deallocate(void* memory, size_t wanted, size_t) override {
    const std::lock_guard lock(mutex_);
    Free* before = &before_;
    while (before->next != nullptr && before->next < memory) before = before->next;
    auto* range = new (memory) Free{grains(wanted), before->next};
    if (before != &before_ && endOf(before) == memory) {
      before->bytes += range->bytes;
      range = before;
    } else {
      before->next = range;
    }
    if (range->next == nullptr || endOf(range) != reinterpret_cast<std::byte*>(range->next)) return;
    range->bytes += range->next->bytes;
    range->next = range->next->next;
  }

  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override { return this == &other; }

  std::mutex mutex_;
  Free before_{0, nullptr};  // the first one
};

// Pieces of one pinned allocation.
struct Region {
  Region(std::byte* memory, size_t bytes)
      : begin(memory), end(memory + bytes), ranges(memory, bytes), pool({0, kLargestPooled}, &ranges) {}
  std::byte* begin;
  std::byte* end;
  Ranges ranges;
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
