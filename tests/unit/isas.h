// The instruction sets this machine can run.
#pragma once

#include "tests/support/catch.h"
#include <vector>

#include "host/isa.h"

namespace sparsecoll::test {

// The scalar reference first. What this machine lacks is named as skipped.
inline std::vector<const host::Isa*> availableIsas() {
  std::vector<const host::Isa*> isas = {&host::kScalar};
#if defined(__x86_64__)
  for (const host::Isa* isa : {&host::kAvx2, &host::kAvx512}) {
    if (isa->supported())
      isas.push_back(isa);
    else
      WARN(isa->name << ": skipped, this machine does not have it");
  }
#else
  WARN("avx2, avx512: skipped, this machine does not have them");
#endif
  return isas;
}

}  // namespace sparsecoll::test
