// The NaN that machines share, over vectors.
#pragma once

#include <cstdint>

#include "core/numeric.h"

namespace sparsecoll::host {

template <class A>
bool hasNaN(const A* x, uint64_t n) {
  typename Magnitude<A>::Key met = 0;
  for (uint64_t i = 0; i < n; ++i) met |= x[i] == x[i] ? 0u : 1u;  // no early end, so that vectors do it
  return met != 0;
}

template <class A>
void makeCanonical(A* x, uint64_t n) {
  for (uint64_t i = 0; i < n; ++i) x[i] = canonical(x[i]);
}

}  // namespace sparsecoll::host
