#pragma once

#include <span>

#include "core/kernels.h"
#include "host/isa.h"

namespace sparsecoll::host {

// The sum of kSquareLanes lanes in a fixed tree.
double foldLanes(double* lanes);

// Adds the squares of at most kTile elements to their lanes.
template <class A>
void squareLanes(const A* x, uint64_t n, double* lanes, const Isa& isa);

void sample(const PassArgs& args, const Isa& isa);
void segmentSquares(const void* x, sparsecollDataType_t type, std::span<const uint64_t> bounds, double* squares,
                    const Isa& isa);

}  // namespace sparsecoll::host
