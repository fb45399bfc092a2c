// The survival function of the magnitudes, which share of the entries is larger, with both axes logarithmic: a
// threshold's error is the horizontal distance of an estimator's curve from the measured one, and the error of what it
// keeps the vertical one.
#pragma once

#include <string>
#include <vector>

#include "bench/fit/analysis.h"

namespace bench {

// One panel a gradient, one below the other, as SVG.
std::string plotOf(const std::vector<Analysis>& analyses);

}  // namespace bench
