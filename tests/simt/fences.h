// What fences order between the threads of blocks that run at once, told to the race checker, which knows no fences.
// A fence orders what came before it with what comes after another fence where the value of an atomic went from the one
// side to the other: written after the first fence, read before the second. Barriers and __syncwarp carry both on to
// the threads that meet: one may write, or read, for the others. That is more than C++ promises of its fences: on a
// device all of them are in one order, which the value that was read decides for these two.
#pragma once

#include <simt_threads.h>

#include <cstdint>

namespace simt {

class Fences {
 public:
  // While grids run, what fences and atomics have left behind is kept.
  static void beginGrid();
  static void endGrid();
  // Around an atomic, so that value and order go together.
  static void lock();
  static void unlock();

  void beginShare();
  void beginBlock(unsigned threads);
  void fence(unsigned thread);
  void meetBlock();
  void meetWarp(unsigned first, uint32_t group);
  // Thread has done this to the address; the lock is held.
  void note(unsigned thread, const void* address, Access access);

  // An object of the race checker's, which holds what came before a fence. Lists of them grow at their front only and
  // share their ends.
  struct Past;
  struct Pasts {
    Past* past;
    const Pasts* rest;
  };

 private:
  struct Thread {
    Past* own;            // before its latest fence
    bool isShared;        // the same is in a list
    const Pasts* fenced;  // what its next write hands on; empty: what the block fenced before its latest barrier
    const Pasts* read;    // what its next fence lets it see, beside what the block has read
    const Pasts* seen;    // of the block's
  };
  static constexpr unsigned kMost = 1024;

  unsigned count_ = 0;
  Past* fencing_ = nullptr;        // before any fence since the latest barrier
  const Pasts* fenced_ = nullptr;  // before any fence ahead of that
  const Pasts* read_ = nullptr;    // ahead of the latest barrier
  Thread threads_[kMost];
};

}  // namespace simt
