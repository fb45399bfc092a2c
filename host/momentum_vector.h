// Velocity and acc on vectors, written once for every vector type V.
#pragma once

#include "host/momentum_scalar.h"

namespace sparsecoll::host {
namespace {

template <class V, class T, bool kVelocity, bool kNesterov>
inline void momentumBlocks(const MomentumSpan<typename V::A>& caller) {
  const MomentumSpan<typename V::A> span = caller;  // a copy: stores to the vectors cannot change it
  const auto* const gradient = static_cast<const T*>(span.gradient);
  const auto scale = V::broadcast(span.scale);
  const auto factor = V::broadcast(span.factor);
  const auto decay = V::broadcast(span.decay);
  uint64_t i = 0;
  for (; i + V::kLanes <= span.n; i += V::kLanes) {
    const auto g = V::load(gradient + i);
    const auto kept = V::multiply(decay, V::load(span.in + i));
    if (!kVelocity) {
      V::store(span.out + i, V::fma(scale, g, kept));
      continue;
    }
    const auto velocity = V::fma(scale, g, V::multiply(factor, V::load(span.velocityIn + i)));
    V::store(span.velocityOut + i, velocity);
    V::store(span.out + i, V::add(kept, kNesterov ? V::fma(scale, g, V::multiply(factor, velocity)) : velocity));
  }
  momentumScalar<T>(span, i);
}

template <class V, class T>
void momentumVector(const MomentumSpan<typename V::A>& span) {
  if (span.velocityIn == nullptr) return momentumBlocks<V, T, false, false>(span);
  span.nesterov ? momentumBlocks<V, T, true, true>(span) : momentumBlocks<V, T, true, false>(span);
}

}  // namespace
}  // namespace sparsecoll::host
