#include "tests/support/malloc_hooks.h"

#include <atomic>

#include "tests/support/memory_exempt.h"

#ifndef SPARSECOLL_TEST_SANITIZED
#include <malloc.h>

#include <cerrno>
#include <cstddef>

// What glibc's allocator is called when malloc is somebody else.
extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* block, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void* block);
}
#endif

namespace sparsecoll::test::memory {

namespace {

constexpr uint64_t kNever = ~uint64_t{0};

thread_local uint64_t count = 0;
thread_local uint64_t untilRefusal = kNever;
thread_local bool wasRefused = false;
thread_local bool refusesOthers = false;
std::atomic<bool> othersRefused{false};
std::atomic<uint64_t> live{0};
std::atomic<uint64_t> peak{0};

}  // namespace

#ifndef SPARSECOLL_TEST_SANITIZED
bool hooked() { return true; }

bool refuses() {
  ++count;
  if (exemptions > 0) return false;
  if (othersRefused.load() && !refusesOthers) {
    errno = ENOMEM;
    return true;
  }
  if (untilRefusal == kNever || untilRefusal-- != 0) return false;
  untilRefusal = kNever;
  wasRefused = true;
  errno = ENOMEM;
  return true;
}

void* noted(void* block) {
  if (block == nullptr) return nullptr;
  const uint64_t now = live.fetch_add(malloc_usable_size(block)) + malloc_usable_size(block);
  uint64_t most = peak.load();
  while (most < now && !peak.compare_exchange_weak(most, now)) {
  }
  return block;
}

void forget(void* block) {
  if (block != nullptr) live.fetch_sub(malloc_usable_size(block));
}
#else
bool hooked() { return false; }
#endif

uint64_t allocationsHere() { return count; }
uint64_t liveBytes() { return live.load(); }
uint64_t peakBytes() { return peak.load(); }
void resetPeak() { peak.store(live.load()); }
void refuseAfter(uint64_t skip) {
  wasRefused = false;
  untilRefusal = skip;
}
bool refused() { return wasRefused; }
void refuseOthers(bool refuses) {
  refusesOthers = refuses;
  othersRefused.store(refuses);
}
void refuseNone() { untilRefusal = kNever; }

}  // namespace sparsecoll::test::memory

#ifndef SPARSECOLL_TEST_SANITIZED
#define HOOK extern "C" __attribute__((visibility("default")))
using namespace sparsecoll::test::memory;

HOOK void* malloc(size_t bytes) { return refuses() ? nullptr : noted(__libc_malloc(bytes)); }
HOOK void* calloc(size_t members, size_t bytes) { return refuses() ? nullptr : noted(__libc_calloc(members, bytes)); }
HOOK void* memalign(size_t alignment, size_t bytes) {
  return refuses() ? nullptr : noted(__libc_memalign(alignment, bytes));
}
HOOK void* aligned_alloc(size_t alignment, size_t bytes) { return memalign(alignment, bytes); }
HOOK int posix_memalign(void** block, size_t alignment, size_t bytes) {
  *block = memalign(alignment, bytes);
  return *block == nullptr ? ENOMEM : 0;
}
HOOK void* realloc(void* block, size_t bytes) {
  if (refuses()) return nullptr;
  const size_t before = block == nullptr ? 0 : malloc_usable_size(block);
  void* const moved = __libc_realloc(block, bytes);
  if (moved == nullptr && bytes != 0) return nullptr;
  live.fetch_sub(before);
  return noted(moved);
}
HOOK void free(void* block) {
  forget(block);
  __libc_free(block);
}
#endif
