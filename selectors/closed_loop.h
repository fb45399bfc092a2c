// What methods share that derive a threshold from a sample of the magnitudes and select the whole vector with it.
#pragma once

#include "selectors/selection.h"

namespace sparsecoll {

// One window over everything, at most its room is kept: 2 k, or roomFaithful k for a faithful method, whose count may
// go far astray; what is more stays in the residual, smallest magnitudes first.
// Once the sample is there, `published` sets the threshold of a faithful method, else `corrected`, with the closed
// loop.
SelectionPlan planSampledThreshold(const SelectionRequest& request, const Rule& published, const Rule& corrected,
                                   uint64_t roomFaithful = 32);

}  // namespace sparsecoll
