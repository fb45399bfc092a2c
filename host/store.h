// Writing finished sums to the caller's element type.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "core/kernels.h"
#include "core/numeric.h"
#include "host/isa.h"

namespace sparsecoll::host {

template <class T, class A>
void storeElements(const A* from, T* to, uint64_t n, const Isa& isa) {
  if constexpr (std::is_same_v<T, A>) {
    std::copy_n(from, n, to);
  } else if constexpr (std::is_same_v<T, Half> && std::is_same_v<A, float>) {
    isa.narrowHalf(from, to, n);
  } else {
    using Wide = typename Element<T>::Accumulate;
    for (uint64_t i = 0; i < n; ++i) to[i] = Element<T>::store(static_cast<Wide>(from[i]));
  }
}

template <class T, class A>
void loadElements(const T* from, A* to, uint64_t n, const Isa& isa) {
  if constexpr (std::is_same_v<T, A>) {
    std::copy_n(from, n, to);
  } else if constexpr (std::is_same_v<T, Half> && std::is_same_v<A, float>) {
    isa.widenHalf(from, to, n);
  } else {
    for (uint64_t i = 0; i < n; ++i) to[i] = static_cast<A>(Element<T>::load(from[i]));
  }
}

// Finished sums of tile to out, tile = 0.
template <class A>
void finishTile(const Isa& isa, const FinishFactors<A>& factors, A* tile, A* out, uint64_t n, bool stream = false) {
  if constexpr (std::is_same_v<A, double>)
    isa.finishDouble({tile, out, n, factors, stream});
  else
    isa.finishFloat({tile, out, n, factors, stream});
}

// Past this size an output does not fit in the caches anyway, and writing around them saves reading it first.
inline constexpr uint64_t kStreamBytes = 4u << 20;

// Copies bytes (a multiple of 16, both ends 16-byte aligned) around the caches where that is possible.
inline void streamBytes(void* to, const void* from, uint64_t bytes) {
#if defined(__SSE2__)
  auto* out = static_cast<__m128i*>(to);
  const auto* in = static_cast<const __m128i*>(from);
  for (uint64_t i = 0; i < bytes / 16; ++i) _mm_stream_si128(out + i, _mm_load_si128(in + i));
#else
  std::memcpy(to, from, bytes);
#endif
}

// Makes streamed bytes visible before anything this thread writes later.
inline void streamFence() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

inline bool mayStream(const void* to, uint64_t bytes) {
  return bytes >= kStreamBytes && reinterpret_cast<uintptr_t>(to) % 64 == 0;
}

}  // namespace sparsecoll::host
