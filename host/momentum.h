// The fused pass with momentum or a fading residual: tile by tile, first velocity and acc, then the selection from an
// acc that is still in the cache. Memory is read and written once all the same.
#pragma once

#include <algorithm>

#include "core/kernels.h"
#include "host/isa.h"

namespace sparsecoll::host {

// The part of args from element `at` on; out and velocityOut may be others than args'.
template <class T, class A = typename Element<T>::Accumulate>
MomentumSpan<A> momentumSpan(const PassArgs& args, uint64_t at, uint64_t length, A* out, A* velocityOut) {
  MomentumSpan<A> span;
  span.gradient = static_cast<const T*>(args.gradient) + at;
  span.in = static_cast<const A*>(args.in) + at;
  span.out = out;
  if (args.momentum.velocityIn != nullptr) span.velocityIn = static_cast<const A*>(args.momentum.velocityIn) + at;
  span.velocityOut = velocityOut;
  span.n = length;
  span.scale = static_cast<A>(args.scale.now());
  span.factor = static_cast<A>(args.momentum.factor);
  span.decay = static_cast<A>(args.momentum.decay);
  span.nesterov = args.momentum.nesterov;
  return span;
}

// Like a PassFunction, over the whole span.
template <class T, class A = typename Element<T>::Accumulate>
uint64_t passTiles(const PassArgs& args, const PassSpan<A>& whole, const Isa& isa) {
  auto* const velocity = static_cast<A*>(args.momentum.velocityOut);
  PassSpan<A> span = whole;
  span.gradient = whole.out;
  span.in = nullptr;
  span.out = nullptr;
  span.scale = 1;
  uint64_t found = 0;
  for (uint64_t at = whole.begin; at < whole.end; at += kTile) {
    span.begin = at;
    span.end = std::min(at + kTile, whole.end);
    momentumFor<T>(isa)(
        momentumSpan<T>(args, at, span.end - at, whole.out + at, velocity != nullptr ? velocity + at : nullptr));
    const uint64_t stored = std::min(found, whole.room);
    span.indices = whole.indices + stored;
    span.values = whole.values + stored;
    span.room = whole.room - stored;
    found += passFor<A>(isa)(span);
  }
  return found;
}

}  // namespace sparsecoll::host
