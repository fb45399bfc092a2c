#include "host/scalar.h"

#include "host/momentum_scalar.h"

namespace sparsecoll::host {

namespace {

template <class T>
uint64_t pass(const PassSpan<typename Element<T>::Accumulate>& span) {
  return passScalar<T>(span, span.begin, span.end, 0);
}

template <class A>
void finish(const FinishTile<A>& args) {
  finishScalar(args, 0);
}

template <class A>
bool denseSum(const DenseSpan<A>& args) {
  return denseSumScalar(args, 0);
}

template <class T>
void momentum(const MomentumSpan<typename Element<T>::Accumulate>& span) {
  momentumScalar<T>(span, 0);
}

void widen(const Half* from, float* to, uint64_t n) {
  for (uint64_t i = 0; i < n; ++i) to[i] = toFloat(from[i]);
}

void narrow(const float* from, Half* to, uint64_t n) {
  for (uint64_t i = 0; i < n; ++i) to[i] = toHalf(from[i]);
}

}  // namespace

const Isa kScalar = {
    "scalar",
    [] { return true; },
    pass<float>,
    pass<Half>,
    pass<Bfloat>,
    pass<double>,
    finish<float>,
    finish<double>,
    denseSum<float>,
    denseSum<double>,
    squareLanesScalar<float>,
    squareLanesScalar<double>,
    widen,
    narrow,
    momentum<float>,
    momentum<Half>,
    momentum<Bfloat>,
    momentum<double>,
};

}  // namespace sparsecoll::host
