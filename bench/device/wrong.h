// Counts that are not what they have to be.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "core/control.h"

namespace bench {

inline uint64_t difference(uint64_t a, uint64_t b) { return a > b ? a - b : b - a; }

// A vector on a device, and what a selection took of it.
struct Taken {
  const float* acc = nullptr;
  uint64_t n = 0;
  const sparsecoll::Window* windows = nullptr;
  uint32_t windowCount = 0;
  const uint32_t* indices = nullptr;
  const float* values = nullptr;
  uint32_t count = 0;
};

// Entries of the list that are not acc's, or out of order, or in no window; and for every window by how many it has
// more or fewer than its key and its limit ask for, and larger ones that stayed while smaller ones were taken. Reads
// acc again, and knows nothing of how a cut works. Waits.
uint64_t wrongEntries(const Taken& taken, cudaStream_t stream);

}  // namespace bench
