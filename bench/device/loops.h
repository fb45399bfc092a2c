// Loops on a device that fill vectors, count in them, and that bandwidths are measured with.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace bench {

// Normal noise; entry i depends on the seed and i alone.
void fillNormal(float* x, uint64_t n, uint64_t seed, cudaStream_t stream);
// to = factor * from
void scale(float* to, const float* from, float factor, uint64_t n, cudaStream_t stream);

// r += g: reads 8 bytes and writes 4 an element, as the accumulate pass of every method does.
void addInPlace(float* r, const float* g, uint64_t n, cudaStream_t stream);
// Reads 4 bytes an element; *sink changes so that nobody leaves the reading out.
void readAll(const float* x, uint64_t n, uint32_t* sink, cudaStream_t stream);

// *count += entries other than 0
void countNonZeros(const float* x, uint64_t n, unsigned long long* count, cudaStream_t stream);

}  // namespace bench
