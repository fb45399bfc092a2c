#include "tests/support/refused_memory.h"

#include <cstddef>
#include <cstdlib>
#include <new>

namespace sparsecoll::test {

std::atomic<int64_t> memoryLeft{-1};

namespace {

void* given(std::size_t bytes, std::size_t alignment) noexcept {
  for (int64_t left = memoryLeft.load(); left >= 0;)
    if (memoryLeft.compare_exchange_weak(left, left - 1)) {
      if (left == 0) return nullptr;
      break;
    }
  const std::size_t wanted = bytes == 0 ? 1 : bytes;
  if (alignment <= alignof(std::max_align_t)) return std::malloc(wanted);
  return std::aligned_alloc(alignment, (wanted + alignment - 1) / alignment * alignment);
}

void* givenOrThrow(std::size_t bytes, std::size_t alignment) {
  void* const memory = given(bytes, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

constexpr std::size_t kUsual = alignof(std::max_align_t);

}  // namespace
}  // namespace sparsecoll::test

void* operator new(std::size_t n) { return sparsecoll::test::givenOrThrow(n, sparsecoll::test::kUsual); }
void* operator new[](std::size_t n) { return sparsecoll::test::givenOrThrow(n, sparsecoll::test::kUsual); }
void* operator new(std::size_t n, std::align_val_t a) {
  return sparsecoll::test::givenOrThrow(n, static_cast<std::size_t>(a));
}
void* operator new[](std::size_t n, std::align_val_t a) {
  return sparsecoll::test::givenOrThrow(n, static_cast<std::size_t>(a));
}
void* operator new(std::size_t n, const std::nothrow_t&) noexcept {
  return sparsecoll::test::given(n, sparsecoll::test::kUsual);
}
void* operator new[](std::size_t n, const std::nothrow_t&) noexcept {
  return sparsecoll::test::given(n, sparsecoll::test::kUsual);
}
void* operator new(std::size_t n, std::align_val_t a, const std::nothrow_t&) noexcept {
  return sparsecoll::test::given(n, static_cast<std::size_t>(a));
}
void* operator new[](std::size_t n, std::align_val_t a, const std::nothrow_t&) noexcept {
  return sparsecoll::test::given(n, static_cast<std::size_t>(a));
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
