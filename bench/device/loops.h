// Loops on a device that fill vectors, count in them, and that bandwidths are measured with.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "sparsecoll/sparsecoll.h"

namespace bench {

// Normal noise; entry i depends on the seed and i alone.
void fillNormal(float* x, uint64_t n, uint64_t seed, cudaStream_t stream);
// Of type float, half or bfloat, to nearest even.
void roundTo(void* to, sparsecollDataType_t type, const float* from, uint64_t n, cudaStream_t stream);
// to = factor * from, which is of one of these types
void scale(float* to, const void* from, sparsecollDataType_t type, float factor, uint64_t n, cudaStream_t stream);

// r += factor * g: reads 8 bytes and writes 4 an element, as the accumulate pass of every method does.
void addInPlace(float* r, const float* g, uint64_t n, cudaStream_t stream, float factor = 1);
// Reads 4 bytes an element; *sink changes so that nobody leaves the reading out.
void readAll(const float* x, uint64_t n, uint32_t* sink, cudaStream_t stream);

// values[i] = x[indices[i]] for i < *count, which is at most `most`
void gather(const float* x, const uint32_t* indices, const uint32_t* count, uint64_t most, float* values,
            cudaStream_t stream);
// x[indices[i]] = 0
void clearAt(float* x, const uint32_t* indices, const uint32_t* count, uint64_t most, cudaStream_t stream);

// *count += entries whose |bits| are at least the key; all but zeros: 1
void countReaching(const float* x, uint64_t n, uint32_t key, unsigned long long* count, cudaStream_t stream);

}  // namespace bench
