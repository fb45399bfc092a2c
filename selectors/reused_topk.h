#pragma once

#include <cstdint>

namespace sparsecoll {

struct ReusedTopKState {
  uint64_t due;  // 1: the next step is an exact one
};

}  // namespace sparsecoll
