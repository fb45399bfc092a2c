// For tests that run on an emulated device and on a real one.
#pragma once

#include <cstdint>
#include <string>

#include "tests/device/emulation.h"
#include "tests/support/catch.h"
#include "tests/support/wanted.h"

namespace sparsecoll::test {

inline constexpr int kDevice = 0;

// Random schedules that a test goes through; the environment variable SPARSECOLL_SIMT_SEEDS gives another number.
inline uint64_t schedulesWanted() {
#ifdef SPARSECOLL_TEST_SANITIZED
  constexpr uint64_t kUsual = 1;
#else
  constexpr uint64_t kUsual = 2;
#endif
  return wanted("SPARSECOLL_SIMT_SEEDS", kUsual);
}

inline void checkEmulation() {
  for (const simt::Error& error : simt::errors()) FAIL_CHECK(error.message);
  simt::clearErrors();
}

}  // namespace sparsecoll::test
