// For tests that run on an emulated device and on a real one.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>

#include "tests/device/emulation.h"
#include "tests/support/catch.h"

namespace sparsecoll::test {

inline constexpr int kDevice = 0;

// Random schedules that a test goes through; the environment variable SPARSECOLL_SIMT_SEEDS gives another number.
inline uint64_t schedulesWanted() {
#ifdef SPARSECOLL_TEST_SANITIZED
  constexpr uint64_t kUsual = 1;
#else
  constexpr uint64_t kUsual = 2;
#endif
  const char* const given = std::getenv("SPARSECOLL_SIMT_SEEDS");
  return given != nullptr ? std::stoull(given) : kUsual;
}

inline void checkEmulation() {
  for (const simt::Error& error : simt::errors()) FAIL_CHECK(error.message);
  simt::clearErrors();
}

}  // namespace sparsecoll::test
