#include "tests/simt/block.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>

#include "tests/simt/hands.h"
#include "tests/simt/sanitizers.h"
#include "tests/simt/state.h"

constinit thread_local uint3 threadIdx{};
constinit thread_local uint3 blockIdx{};
constinit thread_local dim3 blockDim{};
constinit thread_local dim3 gridDim{};

namespace simt {
namespace {

constexpr char kGarbage = '\xcb', kZone = '\x5e';
// Under round robin, atomics and polls give way rarely: enough for whoever spins on one.
constexpr unsigned kPatientAtomics = 256, kRestlessAtomics = 16;

long long now() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

uint3 unflatten(uint64_t number, dim3 size) {
  return {static_cast<unsigned>(number % size.x), static_cast<unsigned>(number / size.x % size.y),
          static_cast<unsigned>(number / size.x / size.y)};
}

}  // namespace

Block::Block() { running_ = &fibers_.base(); }

uint64_t Block::random() {
  uint64_t x = randomState_ += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

void Block::run(const Grid& grid) {
  const uint64_t blocks = static_cast<uint64_t>(grid.blocks.x) * grid.blocks.y * grid.blocks.z;
  Shares shares{.grid = grid,
                .seed = seedOfNextLaunch(),
                .blocks = blocks,
                .hands = static_cast<unsigned>(std::min<uint64_t>(handsWanted(), blocks))};
  prepare(shares, 0);
  shuffle(shares);
  const bool isWatched = isWatched_;
  if (isWatched) Fences::beginGrid();
  together(shares.hands, workOn, &shares);
  if (isWatched) Fences::endGrid();
}

void Block::shuffle(Shares& shares) {
  constexpr uint64_t longestShuffled = 1u << 22;
  if (seed_ == 0 || shares.blocks > longestShuffled) return;
  order_.resize(shares.blocks);
  std::iota(order_.begin(), order_.end(), 0u);
  for (uint64_t i = shares.blocks; i > 1; --i) std::swap(order_[i - 1], order_[random() % i]);
  shares.order = order_.data();
}

void Block::work(Shares& shares, unsigned hand) {
  if (hand != 0) prepare(shares, hand);
  Work done{.kernels = hand == 0 ? 1u : 0u};
  for (uint64_t i = hand; i < shares.blocks && !shares.failed; i += shares.hands) {
    ++done.blocks;
    if (!runBlock(shares.order ? shares.order[i] : i)) shares.failed = true;
  }
  grid_ = nullptr;
  done.threads = done.blocks * count_;
  done.switches = switches_;
  count(done);
}

void Block::prepare(const Shares& shares, unsigned hand) {
  constexpr uint64_t spread = 0xd1342543de82ef95u;
  const Grid& grid = shares.grid;
  grid_ = &grid;
  seed_ = shares.seed;
  randomState_ = seed_ + hand * spread;
  switches_ = 0;
  hasOthers_ = shares.hands > 1;
  isWatched_ = kRaceChecker && hasOthers_;
  if (isWatched_) fences_.beginShare();
  const dim3 size = grid.threads;
  if (size.x != blockDim.x || size.y != blockDim.y || size.z != blockDim.z || count_ == 0) {
    count_ = size.x * size.y * size.z;
    for (unsigned i = 0; i < count_; ++i) indices_[i] = unflatten(i, size);
  }
  blockDim = size;
  gridDim = grid.blocks;
  prepareShared(grid.sharedBytes);
  // The race checker takes the threads apart by their fibers.
  if (kRaceChecker) fibers_.grow(count_, &Block::body, this);
}

void Block::prepareShared(size_t bytes) {
  constexpr size_t alignment = 256;
  if (memory_.size() < bytes + 2 * kRedZone + alignment) memory_.resize(bytes + 2 * kRedZone + alignment);
  const auto begin = reinterpret_cast<uintptr_t>(memory_.data()) + kRedZone;
  shared_ = reinterpret_cast<char*>((begin + alignment - 1) / alignment * alignment);
}

void Block::fillShared() {
  std::memset(shared_ - kRedZone, kZone, kRedZone);
  std::memset(shared_, kGarbage, grid_->sharedBytes);
  std::memset(shared_ + grid_->sharedBytes, kZone, kRedZone);
}

bool Block::checkShared() {
  for (size_t i = 0; i < kRedZone; ++i) {
    const bool before = shared_[i - kRedZone] != kZone;
    if (!before && shared_[grid_->sharedBytes + i] == kZone) continue;
    report(Misuse::sharedOverrun,
           "dynamic shared memory was written " + (before ? std::to_string(kRedZone - i) + " bytes before its begin"
                                                          : std::to_string(i) + " bytes behind the " +
                                                                std::to_string(grid_->sharedBytes) + " of the launch"));
    return false;
  }
  return true;
}

bool Block::runBlock(uint64_t number) {
  blockIdx = unflatten(number, grid_->blocks);
  live_ = count_;
  head_ = queued_ = 0;
  barrier_.waiting = barrier_.truths = 0;
  failed_ = false;
  pauses_ = 0;
  untilSwitch_ = seed_ ? 1 + static_cast<unsigned>(random() % kRestlessAtomics) : kPatientAtomics;
  for (unsigned i = 0; i < count_; ++i) {
    threads_[i].fiber = nullptr;
    push(i);
  }
  for (unsigned begin = 0; begin < count_; begin += kLanes) {
    Warp& warp = warps_[begin / kLanes];
    warp.live = count_ - begin >= kLanes ? ~0u : (1u << (count_ - begin)) - 1;
    warp.waiting = 0;
  }
  fillShared();
  if (isWatched_) fences_.beginBlock(count_);
  release(&beginTag_);
  resume(pop());
  running_ = &fibers_.base();
  if (failed_) fibers_.releaseAll(&endTag_);
  acquire(&endTag_);
  if (failed_) forgetThreads();
  return checkShared() && !failed_;
}

void Block::forgetThreads() {
  idleCount_ = 0;
  for (unsigned i = 0; i < fibers_.size(); ++i) {
    fibers_.restart(fibers_.at(i));
    idle_[idleCount_++] = &fibers_.at(i);
  }
}

void Block::fence(Scope scope) {
  if (scope == Scope::others) {
    fences_.fence(current_);
    return;
  }
  release(&fenceTag_);
  acquire(&fenceTag_);
}

void Block::fail(Misuse misuse, const std::string& message) {
  const uint3 index = threadIdx, block = blockIdx;
  report(misuse, message + " (thread " + std::to_string(index.x) + "," + std::to_string(index.y) + "," +
                     std::to_string(index.z) + " of block " + std::to_string(block.x) + "," + std::to_string(block.y) +
                     "," + std::to_string(block.z) + ")");
  failed_ = true;
}

void Block::abandon() {
  fibers_.jump(*running_, fibers_.base(), true);
  __builtin_unreachable();
}

// One fiber carries many threads, one after another, as long as they do not wait for each other.
void Block::body(void* argument) {
  auto& block = *static_cast<Block*>(argument);
  for (;;) {
    acquire(&block.beginTag_);
    block.grid_->run(block.grid_->arguments);
    release(&block.endTag_);
    block.leave();
  }
}

void Block::push(unsigned thread) { queue_[(head_ + queued_++) % kMaxThreads] = thread; }

unsigned Block::pop() {
  if (queued_ == 0) return kNone;
  if (seed_ != 0) {
    unsigned& picked = queue_[(head_ + random() % queued_) % kMaxThreads];
    const unsigned first = queue_[head_];
    queue_[head_] = picked;
    picked = first;
  }
  const unsigned thread = queue_[head_];
  head_ = (head_ + 1) % kMaxThreads;
  --queued_;
  return thread;
}

// Goes on with `thread`; returns when the fiber that called is resumed.
void Block::resume(unsigned thread) {
  current_ = thread;
  threadIdx = indices_[thread];
  Fiber*& fiber = threads_[thread].fiber;
  if (!fiber) {
    if (kRaceChecker) {
      fiber = &fibers_.at(thread);
    } else {
      if (idleCount_ == 0) {
        fibers_.grow(fibers_.size() + 1, &Block::body, this);
        idle_[idleCount_++] = &fibers_.at(fibers_.size() - 1);
      }
      fiber = idle_[--idleCount_];
    }
  }
  Fiber* const from = running_;
  if (fiber == from) return;
  ++switches_;
  running_ = fiber;
  fibers_.jump(*from, *fiber);
}

void Block::wait() {
  const unsigned next = pop();
  if (next == kNone) {
    fail(Misuse::deadlock, "nobody can run: " + whoWaits());
    abandon();
  }
  if (next != current_) resume(next);
}

void Block::leave() {
  const unsigned lane = current_ % kLanes;
  --live_;
  warps_[current_ / kLanes].live &= ~(1u << lane);
  if (!kRaceChecker) idle_[idleCount_++] = running_;
  if (live_ == 0) {
    Fiber* const from = running_;
    running_ = &fibers_.base();
    fibers_.jump(*from, fibers_.base());
    return;
  }
  wakeOthers();
  wait();
}

// Whoever waits for threads that have left must not wait for ever.
void Block::wakeOthers() {
  Warp& warp = warps_[current_ / kLanes];
  Thread* const lanes = threads_ + current_ / kLanes * kLanes;
  for (uint32_t rest = warp.waiting; rest != 0;) {
    const uint32_t group = lanes[__builtin_ctz(rest)].mask & warp.live;
    if ((warp.waiting & group) == group) meetComplete(current_ / kLanes * kLanes, group);
    rest &= ~group;
  }
  if (barrier_.waiting != 0 && barrier_.waiting == live_) openBarrier();
}

void Block::pause(unsigned nanoseconds) {
  untilSwitch_ = seed_ ? 1 + static_cast<unsigned>(random() % kRestlessAtomics) : kPatientAtomics;
  constexpr uint64_t looksAtClock = 256;
  if (++pauses_ == 1) begun_ = now();
  if (pauses_ % looksAtClock == 0 && now() - begun_ > patienceMilliseconds()) {
    fail(Misuse::deadlock, "a block polled for " + std::to_string(patienceMilliseconds()) + " ms; " + whoWaits());
    abandon();
  }
  constexpr unsigned kSeldom = 8;
  if (hasOthers_ && seed_ != 0 && random() % kSeldom == 0) restOfMachine(0);
  if (queued_ == 0) {
    restOfMachine(nanoseconds);
    return;
  }
  push(current_);
  wait();
}

}  // namespace simt
