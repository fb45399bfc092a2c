// Velocity and acc, element by element: the reference, and the tail of the vector variants (see scalar.h on linkage).
#pragma once

#include <cstdint>

#include "host/isa.h"

namespace sparsecoll::host {
namespace {

template <class T>
[[maybe_unused]] inline void momentumScalar(const MomentumSpan<typename Element<T>::Accumulate>& span, uint64_t begin) {
  using A = typename Element<T>::Accumulate;
  const auto* const gradient = static_cast<const T*>(span.gradient);
  for (uint64_t i = begin; i < span.n; ++i) {
    const A g = Element<T>::load(gradient[i]);
    const A kept = span.decay * span.in[i];
    if (span.velocityIn == nullptr) {
      span.out[i] = fusedMultiplyAdd(span.scale, g, kept);
      continue;
    }
    const A velocity = fusedMultiplyAdd(span.scale, g, span.factor * span.velocityIn[i]);
    span.velocityOut[i] = velocity;
    span.out[i] = kept + (span.nesterov ? fusedMultiplyAdd(span.scale, g, span.factor * velocity) : velocity);
  }
}

}  // namespace
}  // namespace sparsecoll::host
