// Blocks that run at once for the time of a test.
#pragma once

#include "tests/device/checks.h"
#include "tests/simt/simt.h"

namespace sparsecoll::test {

#ifdef SPARSECOLL_TEST_SANITIZED
inline constexpr uint64_t kSeedsAtOnce[] = {1};
inline constexpr unsigned kBlocksAtOnce = 2;
#else
inline constexpr uint64_t kSeedsAtOnce[] = {0, 1};
inline constexpr unsigned kBlocksAtOnce = 4;
#endif

// At its end some must have.
class AtOnce {
 public:
  explicit AtOnce(uint64_t seed) {
    simt::blocksAtOnce(kBlocksAtOnce);
    simt::schedule(seed);
  }
  ~AtOnce() {
    simt::schedule(0);
    simt::blocksAtOnce(1);
    CHECK(simt::gridsAtOnce() > before_);
    checkEmulation();
  }
  AtOnce(const AtOnce&) = delete;
  AtOnce& operator=(const AtOnce&) = delete;

 private:
  uint64_t before_ = simt::gridsAtOnce();
};

}  // namespace sparsecoll::test
