#include "host/scalar.h"

#include <cstring>

#include "host/momentum_scalar.h"

namespace sparsecoll::host {

namespace {

template <class T>
uint64_t pass(const PassSpan<typename Element<T>::Accumulate>& span) {
  return passScalar<T>(span, span.begin, span.end, 0);
}

template <class T>
uint64_t passSquares(const PassSpan<typename Element<T>::Accumulate>& span, double* lanes) {
  const uint64_t found = pass<T>(span);
  addSquares(span, span.begin, lanes);
  return found;
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

template <class A>
uint64_t collect(const TouchedTile<A>& touched) {
  uint64_t found = 0;
  for (uint64_t word = 0; word < touched.n; word += 8) {
    uint64_t marks = 0;
    std::memcpy(&marks, touched.marks + word, sizeof marks);
    if (marks == 0) continue;
    for (uint64_t i = word; i < word + 8; ++i) {
      touched.offsets[found] = static_cast<uint32_t>(i);
      touched.values[found] = touched.tile[i];
      found += touched.marks[i];
      touched.tile[i] = 0;
      touched.marks[i] = 0;
    }
  }
  return found;
}

template <class A>
void split(const SplitSpan<A>& span) {
  splitScalar(span, 0, 0, span.equals);
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
    passSquares<float>,
    passSquares<Half>,
    passSquares<Bfloat>,
    passSquares<double>,
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
    collect<float>,
    collect<double>,
    split<float>,
    split<double>,
    countScalar<uint32_t>,
    countScalar<uint64_t>,
};

}  // namespace sparsecoll::host
