#include "tests/simt/engine.h"

#include <atomic>
#include <memory>
#include <stdexcept>

#include "tests/simt/block.h"
#include "tests/simt/sanitizers.h"

namespace simt {
namespace {

thread_local std::unique_ptr<Block> ownBlock;
constinit thread_local Block* block = nullptr;
char fenceTag;

Block& own() {
  if (!ownBlock) {
    ownBlock = std::make_unique<Block>();
    block = ownBlock.get();
  }
  return *block;
}

Block& here(const char* name) {
  if (!block || !block->running()) throw std::logic_error(std::string(name) + " outside of a kernel");
  return *block;
}

}  // namespace

void runGrid(const Grid& grid) { own().run(grid); }

void workOn(void* shares, unsigned hand) { own().work(*static_cast<Shares*>(shares), hand); }

bool insideKernel() { return block && block->running(); }

int meetBlock(Meet meet, int value, Place place) {
  if (meet == Meet::syncthreads && isLeftOut(place)) return 0;
  return here("a barrier").meetBlock(meet, value, place);
}

uint64_t meetWarp(Meet meet, uint32_t mask, uint64_t value, uint32_t operand, Place place) {
  return here("a collective").meetWarp(meet, mask, value, operand, place);
}

void pause(unsigned nanoseconds) { here("__nanosleep").pause(nanoseconds); }

void perhapsSwitch() {
  if (insideKernel()) block->countdown();
}

void perhapsNap() {
  if (insideKernel()) block->perhapsNap();
}

// Whoever fences after reading a flag sees what was written before the fence that came before the flag.
void fence(Scope scope, Place place) {
  if (isLeftOutFence(place)) return;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (insideKernel() && block->isWatched()) {
    block->fence(scope);
    return;
  }
  release(&fenceTag);
  acquire(&fenceTag);
}

void beginAtomic() {
  if (insideKernel() && block->isWatched()) Fences::lock();
}

void endAtomic(const void* address, Access access) {
  if (!insideKernel() || !block->isWatched()) return;
  block->note(address, access);
  Fences::unlock();
}

void trap(Place place) {
  Block& own = here("__trap");
  own.fail(Misuse::trap, "__trap at " + describe(place));
  own.abandon();
}

}  // namespace simt

void* simtDynamicShared() { return simt::here("dynamic shared memory").shared(); }
