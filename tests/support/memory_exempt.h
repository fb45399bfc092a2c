// What a test does itself in the middle of a call whose memory is refused (malloc_hooks.h).
#pragma once

namespace sparsecoll::test::memory {

inline thread_local int exemptions = 0;

// While one lives, memory is not refused to its thread.
class Exempt {
 public:
  Exempt() { ++exemptions; }
  ~Exempt() { --exemptions; }
  Exempt(const Exempt&) = delete;
  Exempt& operator=(const Exempt&) = delete;
};

}  // namespace sparsecoll::test::memory
