// What CUDA's own library offers for selections, in scratch memory that the functions keep.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <functional>

namespace bench {

// Writes the indices of the k largest magnitudes of x, in any order.
using LargestOf = std::function<void(const float* x, uint32_t* indices, cudaStream_t stream)>;
// Empty where the headers that this was compiled with have no cub::DeviceTopK.
LargestOf cubTopK(uint32_t n, uint32_t k);
// A radix sort of all magnitudes.
LargestOf cubSort(uint32_t n, uint32_t k);
bool hasCubTopK();

// Writes all indices whose magnitudes reach a threshold that somebody knows, in order, and how many they are.
using ReachingOf = std::function<void(const float* x, uint32_t* indices, uint32_t* count, cudaStream_t stream)>;
ReachingOf cubSelect(uint32_t n, float threshold);

}  // namespace bench
