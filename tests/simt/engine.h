// Runs a grid: blocks one after another or some at once, the threads of a block as fibers of one OS thread.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "tests/simt/simt.h"

namespace simt {

struct Grid {
  dim3 blocks;
  dim3 threads;
  size_t sharedBytes = 0;
  void (*run)(const void* arguments) = nullptr;
  const void* arguments = nullptr;
};

void runGrid(const Grid& grid);
// True in a kernel.
bool insideKernel();
// Note a barrier or fence that a thread comes to, where they are watched.
bool isLeftOut(const Place& place);
bool isLeftOutFence(const Place& place);

}  // namespace simt
