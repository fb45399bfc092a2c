// Finished sums on vectors, written once for every vector type V.
#pragma once

#include "host/scalar.h"

namespace sparsecoll::host {
namespace {

template <class V, bool kDivide>
struct VectorFinish {
  explicit VectorFinish(const FinishFactors<typename V::A>& factors)
      : factor(V::broadcast(factors.factor)), scale(V::broadcast(factors.scale)) {}
  typename V::Vector operator()(typename V::Vector sum) const {
    return V::canonical(V::multiply(kDivide ? V::divide(sum, factor) : V::multiply(sum, factor), scale));
  }
  typename V::Vector factor, scale;
};

template <class V, bool kStream>
inline void put(typename V::A* to, typename V::Vector x) {
  if (kStream)
    V::stream(to, x);
  else
    V::store(to, x);
}

template <class V, bool kDivide, bool kStream>
inline void finishBlocks(const FinishTile<typename V::A>& args) {
  const VectorFinish<V, kDivide> finish(args.factors);
  uint64_t i = 0;
  for (; i + V::kLanes <= args.n; i += V::kLanes) {
    put<V, kStream>(args.out + i, finish(V::load(args.tile + i)));
    V::store(args.tile + i, V::zero());
  }
  finishScalar(args, i);
}

// Sum, finish and store in one go: nothing in between touches memory.
template <class V, bool kDivide, bool kStream>
inline bool denseSumBlocks(const DenseSpan<typename V::A>& args) {
  using A = typename V::A;
  const VectorFinish<V, kDivide> finish(args.factors);
  const auto scale = V::broadcast(args.inputScale);
  const auto infinity = V::broadcastKey(Magnitude<A>::kInfinity);
  uint32_t nonFinite = 0;
  uint64_t i = 0;
  for (; i + V::kLanes <= args.n; i += V::kLanes) {
    auto sum = V::multiply(scale, V::load(static_cast<const A*>(args.in[0]) + i));
    for (uint64_t r = 1; r < args.inCount; ++r)
      sum = V::add(sum, V::multiply(scale, V::load(static_cast<const A*>(args.in[r]) + i)));
    sum = finish(sum);
    nonFinite |= V::atLeast(sum, infinity);
    for (uint64_t r = 0; r < args.outCount; ++r) put<V, kStream>(static_cast<A*>(args.out[r]) + i, sum);
  }
  return denseSumScalar(args, i) || nonFinite != 0;
}

template <class V>
void finishVector(const FinishTile<typename V::A>& args) {
  if (args.factors.divide)
    args.stream ? finishBlocks<V, true, true>(args) : finishBlocks<V, true, false>(args);
  else
    args.stream ? finishBlocks<V, false, true>(args) : finishBlocks<V, false, false>(args);
}

template <class V>
bool denseSumVector(const DenseSpan<typename V::A>& args) {
  if (args.factors.divide)
    return args.stream ? denseSumBlocks<V, true, true>(args) : denseSumBlocks<V, true, false>(args);
  return args.stream ? denseSumBlocks<V, false, true>(args) : denseSumBlocks<V, false, false>(args);
}

}  // namespace
}  // namespace sparsecoll::host
