// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>

#include <climits>

#include "examples/common/learner.h"

#ifdef __GLIBC__  // any header of the C library defines it
#include <malloc.h>
#endif

namespace examples {

// glibc maps every large tensor afresh and the kernel clears its pages again in each step: 25 % of the time. Keeping
// freed memory costs nothing because the next step allocates the same sizes.
void tuneProcess() {
#ifdef __GLIBC__
  mallopt(M_ARENA_MAX, 1);
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, INT_MAX);
  mallopt(M_TOP_PAD, 64 << 20);
#endif
  // OpenBLAS has threads of its own, whichever BLAS this process has loaded.
  using SetThreads = void (*)(int);
  if (auto set = reinterpret_cast<SetThreads>(dlsym(RTLD_DEFAULT, "openblas_set_num_threads"))) set(1);
}

}  // namespace examples
