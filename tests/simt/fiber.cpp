#include "tests/simt/fiber.h"

#include <sys/mman.h>

#include <boost/context/detail/fcontext.hpp>
#include <new>

#include "tests/simt/sanitizers.h"

namespace simt {
namespace context = boost::context::detail;

namespace {

// Sanitized frames are several times as large.
constexpr size_t kStackBytes = (SIMT_ASAN || SIMT_TSAN ? 256 : 64) * 1024;
constexpr size_t kPage = 4096;
constexpr unsigned kStacksPerMapping = 64;
[[maybe_unused]] constexpr unsigned kNoSynchronization = 1;
// Stacks that end at the same place of a page would share a few sets of the first cache.
constexpr size_t kColours = 24, kColourBytes = 128;

}  // namespace

struct Fibers::Entry {
  static void run(context::transfer_t transfer) {
    auto& fibers = *static_cast<Fibers*>(transfer.data);
    fibers.arrived(transfer.fctx);
    fibers.body_(fibers.argument_);
  }
};

Fibers::Fibers() {
#if SIMT_TSAN
  base_.race = __tsan_get_current_fiber();
#endif
  running_ = &base_;
}

Fibers::~Fibers() {
#if SIMT_TSAN
  for (auto& fiber : fibers_) __tsan_destroy_fiber(fiber->race);
#endif
  for (void* mapping : mappings_) {
    constexpr size_t kBytes = kStacksPerMapping * (kStackBytes + kPage);
#if SIMT_ASAN
    __asan_unpoison_memory_region(mapping, kBytes);  // a thread's variables may come to lie there
#endif
    munmap(mapping, kBytes);
  }
}

void Fibers::grow(unsigned size, Body body, void* argument) {
  body_ = body;
  argument_ = argument;
  while (fibers_.size() < size) restart(make());
}

Fiber& Fibers::make() {
  constexpr size_t stride = kStackBytes + kPage;
  if (unusedBytes_ == 0) {
    void* mapping = mmap(nullptr, kStacksPerMapping * stride, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (mapping == MAP_FAILED) throw std::bad_alloc();
    mappings_.push_back(mapping);
    unused_ = static_cast<char*>(mapping);
    unusedBytes_ = kStacksPerMapping * stride;
  }
  auto fiber = std::make_unique<Fiber>();
  mprotect(unused_, kPage, PROT_NONE);
  fiber->stack = unused_ + kPage;
  fiber->index = size();
  fiber->stackBytes = kStackBytes - fiber->index % kColours * kColourBytes;
  unused_ += stride;
  unusedBytes_ -= stride;
  fibers_.push_back(std::move(fiber));
  return *fibers_.back();
}

void Fibers::restart(Fiber& fiber) {
#if SIMT_ASAN
  __asan_unpoison_memory_region(fiber.stack, fiber.stackBytes);
  fiber.fakeStack = nullptr;
#endif
#if SIMT_TSAN
  if (fiber.race) __tsan_destroy_fiber(fiber.race);
  fiber.race = __tsan_create_fiber(0);
#endif
  fiber.context =
      context::make_fcontext(static_cast<char*>(fiber.stack) + fiber.stackBytes, fiber.stackBytes, &Entry::run);
}

void Fibers::releaseAll([[maybe_unused]] void* tag) {
#if SIMT_TSAN
  for (const auto& fiber : fibers_) {
    __tsan_switch_to_fiber(fiber->race, kNoSynchronization);
    __tsan_release(tag);
  }
  __tsan_switch_to_fiber(base_.race, kNoSynchronization);
#endif
}

void Fibers::jump(Fiber& from, Fiber& to, [[maybe_unused]] bool forGood) {
  leaving_ = &from;
  running_ = &to;
#if SIMT_ASAN
  __sanitizer_start_switch_fiber(forGood ? nullptr : &from.fakeStack, to.stack, to.stackBytes);
#endif
#if SIMT_TSAN
  __tsan_switch_to_fiber(to.race, kNoSynchronization);
#endif
  const context::transfer_t back = context::jump_fcontext(to.context, this);
  arrived(back.fctx);
}

void Fibers::arrived(void* cameFrom) {
  Fiber& left = *leaving_;
  left.context = cameFrom;
#if SIMT_ASAN
  const void* bottom = nullptr;
  size_t bytes = 0;
  __sanitizer_finish_switch_fiber(running_->fakeStack, &bottom, &bytes);
  if (&left == &base_) {
    left.stack = const_cast<void*>(bottom);
    left.stackBytes = bytes;
  }
#endif
}

}  // namespace simt
