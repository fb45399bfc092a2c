// The scalar pass: the reference, and the tail of the vector variants. Internal linkage on purpose: each file that
// includes this is compiled for another instruction set, and the linker must not merge their copies.
#pragma once

#include <cstdint>
#include <type_traits>

#include "host/deferred_zeros.h"
#include "host/isa.h"

namespace sparsecoll::host {
namespace {

template <class T>
[[maybe_unused]] inline uint64_t passScalar(const PassSpan<typename Element<T>::Accumulate>& span, uint64_t begin,
                                            uint64_t end, uint64_t found) {
  using A = typename Element<T>::Accumulate;
  const auto* gradient = static_cast<const T*>(span.gradient);
  for (uint64_t i = begin; i < end; ++i) {
    A acc = Element<T>::load(gradient[i]);  // without an out the gradient as it stands
    if (span.out != nullptr) {
      const bool none = span.in == nullptr || (span.deferredZeros != nullptr && isDeferred(span.deferredZeros, i));
      acc = fusedMultiplyAdd(span.scale, acc, none ? A{0} : span.in[i]);
      span.out[i] = acc;
    }
    if (Magnitude<A>::of(acc) < span.key) continue;
    if (found < span.room) {
      span.indices[found] = static_cast<uint32_t>(i);
      span.values[found] = acc;
    }
    ++found;
  }
  return found;
}

template <class A>
[[maybe_unused]] inline void finishScalar(const FinishTile<A>& args, uint64_t begin) {
  for (uint64_t i = begin; i < args.n; ++i) {
    args.out[i] = finishOne(args.factors, args.tile[i]);
    args.tile[i] = 0;
  }
}

template <class A>
[[maybe_unused]] inline bool denseSumScalar(const DenseSpan<A>& args, uint64_t begin) {
  bool nonFinite = false;
  for (uint64_t i = begin; i < args.n; ++i) {
    A sum = args.inputScale * static_cast<const A*>(args.in[0])[i];
    for (uint64_t r = 1; r < args.inCount; ++r) sum += args.inputScale * static_cast<const A*>(args.in[r])[i];
    sum = finishOne(args.factors, sum);
    nonFinite = nonFinite || !isFinite(sum);
    for (uint64_t r = 0; r < args.outCount; ++r) static_cast<A*>(args.out[r])[i] = sum;
  }
  return nonFinite;
}

// From element i on.
template <class A>
[[maybe_unused]] inline void addSquares(const PassSpan<A>& span, uint64_t i, double* lanes) {
  for (; i < span.end; ++i) {
    const auto v = static_cast<double>(span.out[i]);
    double& lane = lanes[(i - span.begin) % kSquareLanes];
    lane = fusedMultiplyAdd(v, v, lane);
  }
}

// Compilers vectorise this for every instruction set. Comparing signed is cheaper.
template <class Key>
[[maybe_unused]] uint64_t countScalar(const Key* keys, uint64_t count, Key least) {
  using Signed = std::make_signed_t<Key>;
  Key lanes[kCountBlock] = {};
  uint64_t i = 0;
  for (; i + kCountBlock <= count; i += kCountBlock)
    for (uint64_t j = 0; j < kCountBlock; ++j)
      lanes[j] += static_cast<Signed>(keys[i + j]) >= static_cast<Signed>(least) ? 1u : 0u;
  uint64_t reached = 0;
  for (const Key lane : lanes) reached += lane;
  for (; i < count; ++i) reached += keys[i] >= least ? 1u : 0u;
  return reached;
}

// From entry i on, of which `kept` before it were kept and `equals` equal ones may follow. Every entry is written to
// both parts, and only one of them moves on: nothing predicts which.
template <class A>
[[maybe_unused]] inline void splitScalar(const SplitSpan<A>& span, uint64_t i, uint64_t kept, uint64_t equals) {
  const auto drop = [&](uint64_t rest) {
    span.restIndices[rest] = span.indexAt(i);
    span.restValues[rest] = span.values[i] * span.restScale;
  };
  const bool withRest = span.restIndices != nullptr;
  const uint64_t mostRest = span.count - span.kept;
  for (; kept < span.kept && (!withRest || i - kept < mostRest); ++i) {
    const auto key = Magnitude<A>::of(span.values[i]);
    const uint64_t equal = (key == span.key ? 1u : 0u) & (equals != 0 ? 1u : 0u);
    span.keptIndices[kept] = span.indexAt(i);
    span.keptValues[kept] = span.values[i];
    if (withRest) drop(i - kept);
    equals -= equal;
    kept += (key > span.key ? 1u : 0u) | equal;
  }
  for (; kept < span.kept; ++i, ++kept) {  // the rest is complete
    span.keptIndices[kept] = span.indexAt(i);
    span.keptValues[kept] = span.values[i];
  }
  for (; withRest && i < span.count; ++i) drop(i - kept);
}

template <class T>
[[maybe_unused]] inline void squareLanesScalar(const T* x, uint64_t rows, double* lanes) {
  for (uint64_t row = 0; row < rows; ++row)
    for (uint64_t lane = 0; lane < 32; ++lane) {
      const double v = static_cast<double>(x[row * 32 + lane]);
      lanes[lane] = fusedMultiplyAdd(v, v, lanes[lane]);
    }
}

}  // namespace
}  // namespace sparsecoll::host
