// The closed forms of SIDCo (Abdelmoniem et al. 2021, section 2), in kept share delta.
#pragma once

#include "selectors/sampled_threshold.h"

namespace sparsecoll {

struct SidcoState {
  ClosedLoop loop;
  // As published: the number of stages, and since it last moved the steps and their sum of kept / k.
  double stages;
  double steps;
  double quality;
};

}  // namespace sparsecoll

namespace sparsecoll::sidco {

// Above these magnitudes, measured from where the moments were taken, the fitted distribution keeps the share delta.
SC_BOTH double exponentialQuantile(double mean, double delta);
SC_BOTH double paretoQuantile(double mean, double variance, double delta);  // generalised Pareto, by moments
SC_BOTH double gammaQuantileOf(double mean, double meanLn, double delta);

// The generalised Pareto distribution with these moments: the share (1 - c x / s)^(1 / c) lies above x, e^(-x / s) for
// c = 0. c is minus what others call its shape.
struct Pareto {
  double c, s;
};
SC_BOTH Pareto paretoOf(double mean, double variance);

// Shape of a gamma distribution with s = ln(mean) - mean(ln), in closed form to about 1 %.
SC_BOTH double gammaShape(double s);

// The share of the tail that each stage after the first keeps, when delta is reached in this many stages.
SC_BOTH double stageShare(double delta, double stages);

}  // namespace sparsecoll::sidco
