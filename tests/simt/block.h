// The state of the block that an OS thread works on. Plain arrays only: functions of the standard library that this
// code shares with instrumented code would be seen by the race checker.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/simt/engine.h"
#include "tests/simt/fences.h"
#include "tests/simt/fiber.h"
#include "tests/simt/simt.h"

namespace simt {

inline constexpr unsigned kMaxThreads = 1024, kLanes = 32, kNone = ~0u;
inline constexpr size_t kRedZone = 1024;

struct Thread {
  Fiber* fiber;
  uint64_t value, result;
  uint32_t mask, operand;
  Meet meet;
  Place place;
};

struct Warp {
  uint32_t live, waiting;
  unsigned phase;
  char tags[3];  // of __syncwarp: even and odd phases, partial masks
};

struct Barrier {
  unsigned waiting, truths, phase;
  int result;
  Meet meet;
  char tags[2];
};

// A grid that hands work on: block number i of the order is the work of hand i % hands.
struct Shares {
  const Grid& grid;
  uint64_t seed;
  uint64_t blocks;
  unsigned hands;
  const uint32_t* order = nullptr;  // null: as they are numbered
  std::atomic<bool> failed{false};
};

// Lets other OS threads run.
void restOfMachine(unsigned nanoseconds);
bool napsAreWanted();

class Block {
 public:
  Block();
  void run(const Grid& grid);
  // This hand's share.
  void work(Shares& shares, unsigned hand);
  bool running() const { return grid_ != nullptr; }
  void* shared() { return shared_; }

  int meetBlock(Meet meet, int value, Place place);
  uint64_t meetWarp(Meet meet, uint32_t mask, uint64_t value, uint32_t operand, Place place);
  void pause(unsigned nanoseconds);
  void countdown() {
    if (--untilSwitch_ == 0) pause(0);
  }
  // Other streams get ahead now and then.
  void perhapsNap() {
    constexpr unsigned kSeldom = 8, kNap = 50'000;
    if (seed_ != 0 && napsAreWanted() && random() % kSeldom == 0) restOfMachine(kNap);
  }
  // Whether the race checker looks at blocks that run at once; and what it has to know then.
  bool isWatched() const { return isWatched_; }
  void fence(Scope scope);
  void note(const void* address, Access access) { fences_.note(current_, address, access); }
  void fail(Misuse misuse, const std::string& message);
  // Leaves for the launch. Nothing on the stacks of the fibers is unwound, so by now it must own nothing.
  [[noreturn]] void abandon();

 private:
  static void body(void* block);
  void prepare(const Shares& shares, unsigned hand);
  void shuffle(Shares& shares);
  void prepareShared(size_t bytes);
  void fillShared();
  bool checkShared();
  bool runBlock(uint64_t number);
  void forgetThreads();

  uint64_t random();
  void push(unsigned thread);
  unsigned pop();
  void wait();
  void resume(unsigned thread);
  void leave();
  void wakeOthers();
  void openBarrier();
  void meetComplete(unsigned firstThread, uint32_t group);
  void checkMeeting(const Warp& warp, unsigned first);
  std::string whoWaits() const;

  const Grid* grid_ = nullptr;
  uint64_t seed_ = 0, randomState_ = 0;
  unsigned count_ = 0, live_ = 0, current_ = 0, untilSwitch_ = 0;
  unsigned head_ = 0, queued_ = 0;
  bool failed_ = false, hasOthers_ = false, isWatched_ = false;
  char beginTag_ = 0, endTag_ = 0, fenceTag_ = 0;
  uint64_t switches_ = 0, pauses_ = 0;
  long long begun_ = 0;
  Fibers fibers_;
  Fiber* running_ = nullptr;
  unsigned idleCount_ = 0;
  Fiber* idle_[kMaxThreads];
  unsigned queue_[kMaxThreads];
  unsigned atBarrier_[kMaxThreads];
  Thread threads_[kMaxThreads];
  uint3 indices_[kMaxThreads];
  Warp warps_[kMaxThreads / kLanes];
  Barrier barrier_{};
  std::vector<char> memory_;
  char* shared_ = nullptr;
  std::vector<uint32_t> order_;
  Fences fences_;
};

// Block::work on the OS thread's own block.
void workOn(void* shares, unsigned hand);

// What a collective hands to its lanes. The lane that reads from one outside of the group, or kNone.
unsigned meetResults(Thread* lanes, uint32_t group);
std::string describe(Meet meet);
std::string describe(const Place& place);

}  // namespace simt
