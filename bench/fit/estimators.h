// The thresholds that the library's selectors derive from a sample, or as published from the whole vector, by the rules
// that run in a reducer's first step.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "bench/fit/magnitudes.h"
#include "selectors/sidco.h"

namespace bench {

// The distributions that SIDCo fits to all magnitudes by moments.
struct Fits {
  double exponentialMean;
  double gammaShape, gammaScale;  // of the magnitudes other than 0
  sparsecoll::sidco::Pareto pareto;
};
// Nothing where fewer than two differ from 0.
std::optional<Fits> fitsOf(const Sample& sample);

struct Estimator {
  const char* name;
  const char* colour;  // of its curve; nullptr: it has none
  bool dashed;
  double (*threshold)(const Sample& sample, uint64_t k);  // 0: none
};

// SAGE is not among them: its threshold follows that of the step before.
std::span<const Estimator> estimators();

}  // namespace bench
