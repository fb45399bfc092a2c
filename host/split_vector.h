// Lists divided at a boundary on vectors.
#pragma once

#include "host/scalar.h"

namespace sparsecoll::host {
namespace {

inline uint32_t lowestBits(uint32_t mask, uint64_t count) {
  uint32_t taken = 0;
  for (; count != 0 && mask != 0; --count, mask &= mask - 1) taken |= mask & (0 - mask);
  return taken;
}

// Entries of one vector, at most `room` of them, to the end of a part. Stores are full-width where there is room for
// that; only the last few entries of a part are stored one by one.
template <class V, class A>
inline void appendLanes(const SplitSpan<A>& span, uint64_t at, typename V::Vector x, uint32_t lanes, uint32_t* indices,
                        A* values, uint64_t room, A scale) {
  if (room >= V::kLanes) {
    if (span.indices != nullptr)
      V::compressListed(values, indices, x, span.indices + at, lanes);
    else
      V::compress(values, indices, x, static_cast<uint32_t>(span.first + at), lanes);
    return;
  }
  for (; lanes != 0; lanes &= lanes - 1, ++indices) {
    const uint64_t from = at + static_cast<uint64_t>(__builtin_ctz(lanes));
    *indices = span.indexAt(from);
    *values++ = span.values[from] * scale;
  }
}

template <class V>
void splitVector(const SplitSpan<typename V::A>& caller) {
  using A = typename V::A;
  const SplitSpan<A> span = caller;  // a copy: stores to the parts cannot change it
  const auto key = V::broadcastKey(span.key);
  const auto next = V::broadcastKey(span.key + 1);
  const auto scale = V::broadcast(span.restScale);
  constexpr uint32_t kAll = (1u << V::kLanes) - 1;
  uint64_t equals = span.equals;
  uint64_t kept = 0;
  uint64_t i = 0;
  for (; i + V::kLanes <= span.count; i += V::kLanes) {
    if (kept == span.kept && span.restIndices == nullptr) return;
    const auto x = V::load(span.values + i);
    uint32_t lanes = V::atLeast(x, next);
    if (const uint32_t equal = V::atLeast(x, key) ^ lanes; equal != 0) [[unlikely]] {
      const uint32_t taken = lowestBits(equal, equals);
      equals -= static_cast<uint64_t>(__builtin_popcount(taken));
      lanes |= taken;
    }
    appendLanes<V>(span, i, x, lanes, span.keptIndices + kept, span.keptValues + kept, span.kept - kept, A{1});
    if (span.restIndices != nullptr) {
      const uint64_t rest = i - kept;
      appendLanes<V>(span, i, V::multiply(x, scale), kAll & ~lanes, span.restIndices + rest, span.restValues + rest,
                     span.count - span.kept - rest, span.restScale);
    }
    kept += static_cast<uint64_t>(__builtin_popcount(lanes));
  }
  splitScalar(span, i, kept, equals);
}

}  // namespace
}  // namespace sparsecoll::host
