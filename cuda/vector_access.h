// Four neighbouring elements at once.
#pragma once

#include "cuda/device.h"

namespace sparsecoll::cuda {

inline constexpr uint32_t kLanesWide = 4;

template <class T>
struct alignas(sizeof(T) * kLanesWide > 16 ? 16 : sizeof(T) * kLanesWide) Four {
  T at[kLanesWide];
};

// Whether fours of this vector lie on their own alignment.
template <class T>
inline bool inFours(const void* data) {
  return reinterpret_cast<uintptr_t>(data) % alignof(Four<T>) == 0;
}

// x[i ...]; past the end: zeros.
template <class T>
__device__ inline Four<T> loadFour(const T* x, uint64_t i, uint64_t end, bool aligned) {
  if (aligned && i + kLanesWide <= end) return *reinterpret_cast<const Four<T>*>(x + i);
  Four<T> four = {};
  for (uint32_t q = 0; q < kLanesWide; ++q)
    if (i + q < end) four.at[q] = x[i + q];
  return four;
}

template <class T>
__device__ inline void storeFour(T* x, uint64_t i, uint64_t end, bool aligned, const Four<T>& four) {
  if (aligned && i + kLanesWide <= end) {
    *reinterpret_cast<Four<T>*>(x + i) = four;
    return;
  }
  for (uint32_t q = 0; q < kLanesWide; ++q)
    if (i + q < end) x[i + q] = four.at[q];
}

}  // namespace sparsecoll::cuda
