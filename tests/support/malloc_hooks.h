// Counts, measures and refuses memory. A test program that adds malloc_hooks.cpp to its sources has every allocation of
// the process, the library's included, go through it.
#pragma once

#include <cstdint>
#include <iostream>

namespace sparsecoll::test::memory {

// False under sanitizers, which bring an allocator of their own.
bool hooked();

// The same, for tests that refuse memory: tells why they are skipped.
inline bool canRefuse() {
  if (!hooked()) std::cout << "skipped: the sanitizer has an allocator of its own\n";
  return hooked();
}

// Allocations of this thread since it started.
uint64_t allocationsHere();

// Bytes that are allocated now in the whole process, and the most there were since resetPeak.
uint64_t liveBytes();
uint64_t peakBytes();
void resetPeak();

// The allocation of this thread after `skip` more of them fails, and no other. refused() tells whether it has happened.
void refuseAfter(uint64_t skip);
bool refused();
void refuseNone();

// While this is set all allocations of other threads fail.
void refuseOthers(bool refuses);

}  // namespace sparsecoll::test::memory
