#include "tests/simt/fiber.h"

#include <sys/mman.h>

#include <algorithm>
#include <boost/context/detail/fcontext.hpp>
#include <iterator>
#include <mutex>
#include <new>
#include <utility>

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

// Fibers of OS threads that have ended, for those to come: tests start a thread for each step of each rank, and to map
// and unmap its stacks takes longer than its kernels. Never destroyed: a static's thread may end last.
struct Stock {
  std::mutex mutex;
  std::vector<std::unique_ptr<Fiber>> fibers;
  char* unused = nullptr;  // of the latest mapping
  size_t unusedBytes = 0;
};
Stock& stock() {
  static Stock& instance = *new Stock;
  return instance;
}

// The stock's lock is the caller's.
std::unique_ptr<Fiber> makeFiber(Stock& from) {
  constexpr size_t stride = kStackBytes + kPage;
  if (from.unusedBytes == 0) {
    void* mapping = mmap(nullptr, kStacksPerMapping * stride, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (mapping == MAP_FAILED) throw std::bad_alloc();
    from.unused = static_cast<char*>(mapping);
    from.unusedBytes = kStacksPerMapping * stride;
  }
  auto fiber = std::make_unique<Fiber>();
  mprotect(from.unused, kPage, PROT_NONE);
  fiber->stack = from.unused + kPage;
  fiber->stackBytes = kStackBytes - from.unusedBytes / stride % kColours * kColourBytes;
  from.unused += stride;
  from.unusedBytes -= stride;
  return fiber;
}

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
  for (auto& fiber : fibers_) __tsan_destroy_fiber(std::exchange(fiber->race, nullptr));
#endif
  Stock& rest = stock();
  const std::scoped_lock lock(rest.mutex);
  std::move(fibers_.begin(), fibers_.end(), std::back_inserter(rest.fibers));
}

void Fibers::grow(unsigned size, Body body, void* argument) {
  body_ = body;
  argument_ = argument;
  Stock& from = stock();
  const std::scoped_lock lock(from.mutex);
  while (fibers_.size() < size) {
    if (from.fibers.empty()) from.fibers.push_back(makeFiber(from));
    fibers_.push_back(std::move(from.fibers.back()));
    from.fibers.pop_back();
    fibers_.back()->index = this->size() - 1;
    restart(*fibers_.back());
  }
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
