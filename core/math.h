// Elementary functions whose results decide what travels: the same bits on every machine, host or device. Correct to a
// few units in the last place; built from fused multiply-adds, no libm.
#pragma once

namespace sparsecoll {

// ln x for finite x > 0; -inf for 0. ln x = e ln 2 + 2 atanh((m - 1) / (m + 1)), m in [1/sqrt 2, sqrt 2).
double lnOf(double x);

// e^x; 0 below -745, infinity above 709.
double expOf(double x);

// x^y for x > 0.
inline double powOf(double x, double y) { return expOf(y * lnOf(x)); }

// ln Gamma(x) for x > 0 (Lanczos's approximation with g = 7).
double lnGamma(double x);

// The x that a gamma distribution of this shape and scale 1 exceeds with probability tail in (0, 1).
double gammaQuantile(double shape, double tail);

// The z >= 0 that a standard normal variable exceeds with probability tail in (0, 1/2].
double normalQuantile(double tail);

}  // namespace sparsecoll
