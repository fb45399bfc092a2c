// The library's own elementary functions against the standard library's, and quantiles against the tails they invert.
#include "core/math.h"

#include "tests/support/catch.h"

#include <cmath>
#include <limits>

namespace sparsecoll {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST_CASE("ln, also near 1 and of subnormal numbers") {
  double worst = 0;
  for (double x = 1e-300; x < 1e300; x *= 1.0371)
    worst = std::max(worst, std::abs(lnOf(x) - std::log(x)) / std::abs(std::log(x)));
  for (double x = 0.5; x < 2; x += 0.00037) worst = std::max(worst, std::abs(lnOf(x) - std::log(x)));
  CHECK(worst < 1e-15);
  CHECK(lnOf(1) == 0);
  for (const double x : {5e-324, 1e-320, 2e-310, 1.7e308}) CHECK(lnOf(x) == Approx(std::log(x)).epsilon(1e-15));
  CHECK(lnOf(0) == -kInfinity);
}

TEST_CASE("e^x over all of its range") {
  double worst = 0;
  for (double x = -705; x < 709.6; x += 0.0713) worst = std::max(worst, std::abs(expOf(x) / std::exp(x) - 1));
  CHECK(worst < 1e-15);
  CHECK(expOf(0) == 1);
  CHECK(expOf(-744) == Approx(std::exp(-744)).margin(1e-323));
  CHECK(expOf(-800) == 0);
  CHECK(expOf(800) == kInfinity);
  CHECK(std::isnan(expOf(std::nan(""))));
  CHECK(powOf(0.004, 0.5) == Approx(std::sqrt(0.004)).epsilon(1e-14));
}

TEST_CASE("ln Gamma") {
  for (double x = 1e-3; x < 200; x *= 1.013) CHECK(lnGamma(x) == Approx(std::lgamma(x)).epsilon(1e-13).margin(1e-13));
}

TEST_CASE("quantiles of the normal distribution") {
  for (const double tail : {0.5, 0.25, 0.1, 0.05, 0.01, 0.001, 1e-6, 1e-9}) {
    CAPTURE(tail);
    CHECK(0.5 * std::erfc(normalQuantile(tail) / std::sqrt(2.0)) == Approx(tail).epsilon(1e-12));
  }
}

TEST_CASE("quantiles of gamma distributions with a closed form") {
  for (const double tail : {0.9, 0.25, 0.01, 0.001}) {
    CAPTURE(tail);
    CHECK(gammaQuantile(1, tail) == Approx(-std::log(tail)).epsilon(1e-12));
    const double two = gammaQuantile(2, tail);  // its tail is (1 + x) e^-x
    CHECK((1 + two) * std::exp(-two) == Approx(tail).epsilon(1e-11));
    const double half = gammaQuantile(0.5, tail);  // its tail is erfc(sqrt x)
    CHECK(std::erfc(std::sqrt(half)) == Approx(tail).epsilon(1e-11));
  }
  CHECK(gammaQuantile(0.01, 0.25) < 1e-10);  // far out on the left nothing overflows
  CHECK(gammaQuantile(0.01, 0.25) > 0);
}

}  // namespace
}  // namespace sparsecoll
