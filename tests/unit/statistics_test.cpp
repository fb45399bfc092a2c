// Squares: the same bits on every instruction set, and those of the documented tree.
#include "host/statistics.h"
#include "host/descent.h"

#include "tests/support/catch.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "tests/unit/data.h"
#include "tests/unit/isas.h"

namespace sparsecoll {
namespace {

using test::Fill;
using test::makeElements;

// Element i of a tile is squared into lane i % 32; lanes are added in halves; tiles in order, in groups of 256, and
// groups in order.
template <class T>
double squaresOf(const T* x, uint64_t n, uint64_t group = 256) {
  double sum = 0;
  double ofGroup = 0;
  for (uint64_t tile = 0; tile < n; tile += 8192) {
    double lanes[32] = {};
    for (uint64_t i = tile; i < std::min(n, tile + 8192); ++i) {
      const auto v = static_cast<double>(Element<T>::load(x[i]));
      lanes[i % 32] = std::fma(v, v, lanes[i % 32]);
    }
    for (int half = 16; half > 0; half /= 2)
      for (int lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
    ofGroup += lanes[0];
    if ((tile / 8192 + 1) % group != 0) continue;
    sum += ofGroup;
    ofGroup = 0;
  }
  return sum + ofGroup;
}

TEMPLATE_TEST_CASE("squares of segments are the documented tree on every instruction set", "", float, Half, Bfloat,
                   double) {
  const uint64_t n = 60000;
  const std::vector<uint64_t> bounds = {0, 1, 1, 32, 65, 8192, 8193, 16385, 16385 + 8192, 50001, n};
  for (const Fill fill : {Fill::kSmooth, Fill::kTight, Fill::kSubnormal}) {
    const auto x = makeElements<TestType>(fill, n, 2);
    for (const host::Isa* isa : test::availableIsas()) {
      CAPTURE(static_cast<int>(fill), isa->name);
      std::vector<double> squares(bounds.size(), -1);
      host::segmentSquares(x.data(), Element<TestType>::kType, bounds, squares.data(), *isa);
      for (size_t s = 0; s + 1 < bounds.size(); ++s) {
        CAPTURE(s);
        CHECK(test::sameBits(squares[s], squaresOf(x.data() + bounds[s], bounds[s + 1] - bounds[s])));
      }
      CHECK(squares.back() == -1);  // one fewer than bounds
    }
  }
}

TEST_CASE("the tiles of long segments are added up in groups") {
  const uint64_t n = 520 * 8192 + 5;
  const auto x = makeElements<Half>(Fill::kSmooth, n, 4);
  const double wanted = squaresOf(x.data(), n);
  REQUIRE(!test::sameBits(wanted, squaresOf(x.data(), n, n)));  // the order matters here
  const std::vector<uint64_t> bounds = {0, n};
  double square = 0;
  host::segmentSquares(x.data(), sparsecollFloat16, bounds, &square, host::bestIsa());
  CHECK(test::sameBits(square, wanted));
}

TEST_CASE("squares of nothing") {
  double square = 7;
  const std::vector<uint64_t> none = {5, 5};
  host::segmentSquares(nullptr, sparsecollFloat32, none, &square, host::bestIsa());
  CHECK(square == 0);
  host::segmentSquares(nullptr, sparsecollFloat32, {}, nullptr, host::bestIsa());
}

// The tree is a statement about bits, this one about meaning.
TEST_CASE("squares are the sum of squares") {
  const auto x = makeElements<float>(Fill::kSmooth, 100000, 3);
  long double wanted = 0;
  for (const float value : x) wanted += static_cast<long double>(value) * static_cast<long double>(value);
  double square = 0;
  const std::vector<uint64_t> bounds = {0, x.size()};
  host::segmentSquares(x.data(), sparsecollFloat32, bounds, &square, host::bestIsa());
  CHECK(square == Approx(static_cast<double>(wanted)).epsilon(1e-14));
}

// The descent looks at 2048 keys at even distances first. Others may have nothing to do with these.
TEST_CASE("the boundary is right whatever the sampled keys say of the others") {
  constexpr uint64_t kCount = 100000;
  constexpr uint64_t kSample = 2048;
  for (const bool sampledAreLarge : {true, false})
    for (const uint64_t need : {uint64_t{1}, uint64_t{100}, kSample, kCount / 2, kCount - 100, kCount}) {
      CAPTURE(sampledAreLarge, need);
      std::vector<uint32_t> keys(kCount);
      for (uint64_t i = 0; i < kCount; ++i)
        keys[i] = static_cast<uint32_t>(i * 7919 % 5000 + (sampledAreLarge ? 0 : 1000000));
      for (uint64_t s = 0; s < kSample; ++s)
        keys[kCount * s / kSample] = static_cast<uint32_t>(s % 500 + (sampledAreLarge ? 1000000 : 0));
      std::vector<uint32_t> sorted = keys;
      std::sort(sorted.begin(), sorted.end(), std::greater<>());
      host::Descent<uint32_t> descent(host::kScalar);
      const auto found = descent.findAmongMany([&](uint64_t i) { return keys[i]; }, kCount, need);
      CHECK(found.key == sorted[need - 1]);
      const auto above = std::lower_bound(sorted.begin(), sorted.end(), found.key, std::greater<>());
      CHECK(static_cast<uint64_t>(above - sorted.begin()) + found.equals == need);
    }
}

}  // namespace
}  // namespace sparsecoll
