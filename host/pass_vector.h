// The fused pass on vectors, written once for every vector type V. Four vectors a block: most blocks hold no candidate at
// the densities of interest, so one test skips the compaction of four. Compaction goes through registers with full-width
// stores; compressing straight to memory is microcoded on some processors.
#pragma once

#include "host/scalar.h"

namespace sparsecoll::host {
namespace {

template <class V, class T, bool kHasIn, bool kHasOut>
inline uint64_t passBlocks(const PassSpan<typename V::A>& span) {
  constexpr uint64_t kLanes = V::kLanes;
  constexpr uint64_t kBlock = 4 * kLanes;
  const auto* gradient = static_cast<const T*>(span.gradient);
  const auto scale = V::broadcast(span.scale);
  const auto key = V::broadcastKey(span.key);
  const uint64_t blocksEnd = span.begin + (span.end - span.begin) / kBlock * kBlock;
  uint64_t found = 0;
  for (uint64_t i = span.begin; i < blocksEnd; i += kBlock) {
    typename V::Vector acc[4];
    uint32_t mask[4];
#pragma GCC unroll 4
    for (uint64_t j = 0; j < 4; ++j) {
      const uint64_t at = i + j * kLanes;
      const auto in = kHasIn ? V::load(span.in + at) : V::zero();
      acc[j] = V::fma(scale, V::load(gradient + at), in);
      mask[j] = V::atLeast(acc[j], key);
      if (kHasOut) V::store(span.out + at, acc[j]);
    }
    if ((mask[0] | mask[1] | mask[2] | mask[3]) == 0) [[likely]]
      continue;
    if (found + kBlock <= span.room) [[likely]] {
#pragma GCC unroll 4
      for (uint64_t j = 0; j < 4; ++j) {
        V::compress(span.values + found, span.indices + found, acc[j], static_cast<uint32_t>(i + j * kLanes), mask[j]);
        found += static_cast<uint64_t>(__builtin_popcount(mask[j]));
      }
      continue;
    }
    for (uint64_t j = 0; j < 4; ++j) {
      typename V::A lanes[kLanes];
      V::store(lanes, acc[j]);
      for (uint32_t left = mask[j]; left != 0; left &= left - 1, ++found) {
        const auto lane = static_cast<uint64_t>(__builtin_ctz(left));
        if (found >= span.room) continue;
        span.indices[found] = static_cast<uint32_t>(i + j * kLanes + lane);
        span.values[found] = lanes[lane];
      }
    }
  }
  return passScalar<T>(span, blocksEnd, span.end, found);
}

template <class V, class T>
uint64_t passVector(const PassSpan<typename V::A>& span) {
  if (span.out == nullptr) return passBlocks<V, T, false, false>(span);
  return span.in == nullptr ? passBlocks<V, T, false, true>(span) : passBlocks<V, T, true, true>(span);
}

}  // namespace
}  // namespace sparsecoll::host
