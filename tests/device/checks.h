// For tests that run on an emulated device and on a real one.
#pragma once

#include "tests/device/emulation.h"
#include "tests/support/catch.h"

namespace sparsecoll::test {

inline constexpr int kDevice = 0;

inline void checkEmulation() {
  for (const simt::Error& error : simt::errors()) FAIL_CHECK(error.message);
  simt::clearErrors();
}

}  // namespace sparsecoll::test
