// acc, element by element, as the pass and whoever looks ahead of it form it.
#pragma once

#include "core/kernels.h"
#include "cuda/vector_access.h"

namespace sparsecoll::cuda {

// The part of PassArgs that acc is made from.
template <class A, class T>
struct AccSource {
  const T* gradient;
  const A* in;
  const A* velocityIn;
  Scale scaleArgument;
  A scale;  // once on the device
  A factor;
  A decay;
  bool nesterov;
  bool plain;    // neither momentum nor decay
  bool aligned;  // all vectors can be read in fours

  static AccSource of(const PassArgs& args) {
    AccSource source;
    source.gradient = static_cast<const T*>(args.gradient);
    source.in = static_cast<const A*>(args.in);
    source.velocityIn = static_cast<const A*>(args.momentum.velocityIn);
    source.scaleArgument = args.scale;
    source.scale = 0;
    source.factor = static_cast<A>(args.momentum.factor);
    source.decay = static_cast<A>(args.momentum.decay);
    source.nesterov = args.momentum.nesterov;
    source.plain = args.momentum.none();
    source.aligned = inFours<T>(args.gradient) && inFours<A>(args.in) && inFours<A>(args.out) &&
                     inFours<A>(args.momentum.velocityIn) && inFours<A>(args.momentum.velocityOut);
    return source;
  }

  __device__ AccSource onDevice() const {
    AccSource source = *this;
    source.scale = static_cast<A>(scaleArgument.now());
    return source;
  }
};

// gradient, in and velocity: of the element; in and velocity 0 where there are none.
template <class A>
struct Moved {
  A acc;
  A velocity;
};

template <class A, class T>
__device__ inline Moved<A> accumulate(const AccSource<A, T>& source, T gradient, A in, A velocity) {
  const A g = Element<T>::load(gradient);
  if (source.plain) return {fusedMultiplyAdd(source.scale, g, in), velocity};
  const A kept = source.decay * in;
  if (source.velocityIn == nullptr) return {fusedMultiplyAdd(source.scale, g, kept), velocity};
  const A moved = fusedMultiplyAdd(source.scale, g, source.factor * velocity);
  const A step = source.nesterov ? fusedMultiplyAdd(source.scale, g, source.factor * moved) : moved;
  return {kept + step, moved};
}

}  // namespace sparsecoll::cuda
