// How sums are finished: the same roundings on every back end.
#pragma once

#include <bit>
#include <cstdint>

#include "core/kernels.h"
#include "core/numeric.h"

namespace sparsecoll {

// x * factor, or x / factor where divide is set, then * scale; NaN becomes the canonical one.
template <class A>
struct FinishFactors {
  A factor = 1;
  A scale = 1;
  bool divide = false;  // the divisor is not a power of two
  const double* scaleAt = nullptr;

  // Where kernels run: with the scale that stands there.
  SC_HD FinishFactors now() const {
    FinishFactors factors = *this;
    if (scaleAt != nullptr) factors.scale = static_cast<A>(*scaleAt);
    return factors;
  }
};

// Division by a power of two becomes a multiplication, which rounds the same.
template <class A>
FinishFactors<A> factorsOf(const Finish& finish) {
  const auto whole = static_cast<uint64_t>(finish.divisor);
  FinishFactors<A> factors;
  factors.divide = static_cast<double>(whole) != finish.divisor || (whole & (whole - 1)) != 0;
  factors.factor = static_cast<A>(factors.divide ? finish.divisor : 1 / finish.divisor);
  factors.scale = static_cast<A>(finish.scale.value);
  factors.scaleAt = finish.scale.at;
  return factors;
}

template <class A>
SC_HD inline A finishOne(const FinishFactors<A>& factors, A x) {
  return canonical((factors.divide ? x / factors.factor : x * factors.factor) * factors.scale);
}

// What is left of before + rest = sum once `stored` is kept of it: what rounding the sum left over (Knuth's two-sum),
// and what storing it in a narrower type left over.
template <class A>
SC_HD inline A restOf(A before, A rest, A sum, A stored) {
  const A added = sum - before;
  const A error = (before - (sum - added)) + (rest - added);
  return isFinite(stored) ? (sum - stored) + error : A{0};
}

}  // namespace sparsecoll
