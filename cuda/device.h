// What device code is written in: CUDA C++ without inline assembly, cooperative groups or CUB, so that the tests can
// run every kernel on the host.
//
// No block ever waits for another one: work that needs the result of all blocks is a further kernel.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "core/numeric.h"

#if SC_DEVICE_CODE
#if defined(SPARSECOLL_SIMT)
#define SC_DYNAMIC_SHARED(Type, name) Type* const name = static_cast<Type*>(simtDynamicShared())
#else
extern __shared__ __align__(16) unsigned char sparsecollDynamicShared[];
#define SC_DYNAMIC_SHARED(Type, name) Type* const name = reinterpret_cast<Type*>(sparsecollDynamicShared)
#endif
#endif

namespace sparsecoll::cuda {

inline constexpr uint32_t kWarp = 32;
inline constexpr uint32_t kThreads = 256;  // a block, unless a kernel says otherwise
inline constexpr uint32_t kAllLanes = 0xffffffffu;

#if SC_DEVICE_CODE
__device__ inline uint32_t laneIndex() { return threadIdx.x % kWarp; }
__device__ inline uint32_t warpIndex() { return threadIdx.x / kWarp; }
__device__ inline uint32_t lanesBelow() { return (1u << laneIndex()) - 1; }
__device__ inline uint64_t globalThread() { return uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ inline uint64_t globalThreads() { return uint64_t{gridDim.x} * blockDim.x; }

using Wide = unsigned long long;  // what CUDA's 64-bit atomics are declared for
static_assert(sizeof(Wide) == sizeof(uint64_t));

__device__ inline uint64_t atomicAddWide(uint64_t* at, uint64_t value) {
  return atomicAdd(reinterpret_cast<Wide*>(at), static_cast<Wide>(value));
}
__device__ inline uint64_t atomicMinWide(uint64_t* at, uint64_t value) {
  return atomicMin(reinterpret_cast<Wide*>(at), static_cast<Wide>(value));
}

// A word that other streams, and other devices, read and write meanwhile.
__device__ inline uint32_t seeWord(const uint32_t* word) {
#if defined(SPARSECOLL_SIMT)
  return __ldcv(word);
#else
  return *static_cast<const volatile uint32_t*>(word);
#endif
}
__device__ inline void setWord(uint32_t* word, uint32_t value) {
#if defined(SPARSECOLL_SIMT)
  __stwt(word, value);
#else
  *static_cast<volatile uint32_t*>(word) = value;
#endif
}

// Any number of threads store the same here at once.
template <class T>
__device__ inline void storeAlike(T* to, T value) {
#if defined(SPARSECOLL_SIMT)
  __stcg(to, value);
#else
  *static_cast<volatile T*>(to) = value;
#endif
}
__device__ inline void storeAlike(Half* to, Half value) { storeAlike(&to->bits, value.bits); }
__device__ inline void storeAlike(Bfloat* to, Bfloat value) { storeAlike(&to->bits, value.bits); }

// Any number of threads raise one flag: they all write the same, and it is read by a later kernel.
__device__ inline void raise(uint32_t* flag) { __stcg(flag, 1u); }

template <class A>
__device__ inline auto keyOf(A x) {
  return Magnitude<A>::of(x);
}
#endif

}  // namespace sparsecoll::cuda
