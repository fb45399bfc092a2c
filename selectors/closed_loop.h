// What methods share that derive a threshold from a sample of the magnitudes and select the whole vector with it.
#pragma once

#include "selectors/selection.h"

namespace sparsecoll {

// One window over everything, at most 2 k entries are kept; what is more stays in the residual, smallest magnitudes
// first. Once the sample is there, `corrected` sets the threshold, with the closed loop. Faithful methods: swept.h.
SelectionPlan planSampledThreshold(const SelectionRequest& request, const Rule& corrected);

}  // namespace sparsecoll
