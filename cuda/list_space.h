// Scratch of the kernels that read several lists at once.
#pragma once

#include "cuda/workspace.h"

namespace sparsecoll::cuda {

struct ListSpace {
  uint32_t* counters = nullptr;  // zero between calls

  static ListSpace place(const WorkspaceNeed&, Placement& at) {
    ListSpace space;
    at.take(space.counters, 16);
    return space;
  }
};

}  // namespace sparsecoll::cuda
