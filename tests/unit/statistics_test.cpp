// Histograms and squares: the same bits on every instruction set, and those of the documented tree.
#include "host/statistics.h"

#include "tests/support/catch.h"

#include "tests/unit/data.h"
#include "tests/unit/isas.h"

namespace sparsecoll {
namespace {

using test::Fill;
using test::makeElements;

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

}  // namespace
}  // namespace sparsecoll
