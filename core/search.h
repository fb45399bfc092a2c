// Binary search, on the host and on devices. The standard library's is wrong there: what its constant expressions call
// of a compiler's own functions, nvcc takes for something that does nothing.
#pragma once

#include <cstdint>

#include "core/portable.h"

namespace sparsecoll {

// The first i in [begin, end) for which it holds; end if there is none. From there on it holds for all.
template <class Holds>
SC_HD inline uint32_t firstWhere(uint32_t begin, uint32_t end, Holds holds) {
  while (begin < end) {
    const uint32_t middle = begin + (end - begin) / 2;
    if (holds(middle))
      end = middle;
    else
      begin = middle + 1;
  }
  return begin;
}

// The first entry in [begin, end) whose index is not below low.
template <class Index>
SC_HD inline uint32_t firstNotBelow(const Index* indices, uint32_t begin, uint32_t end, uint64_t low) {
  return firstWhere(begin, end, [indices, low](uint32_t i) { return indices[i] >= low; });
}

}  // namespace sparsecoll
