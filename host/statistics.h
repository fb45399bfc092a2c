#pragma once

#include <span>

#include "core/kernels.h"
#include "host/isa.h"

namespace sparsecoll::host {

// Sum of squares of at most kTile elements.
template <class A>
double tileSquares(const A* x, uint64_t n, const Isa& isa);

void sample(const PassArgs& args, const Isa& isa);
void segmentSquares(const void* x, sparsecollDataType_t type, std::span<const uint64_t> bounds, double* squares,
                    const Isa& isa);

}  // namespace sparsecoll::host
