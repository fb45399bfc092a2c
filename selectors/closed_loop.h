// What methods share that derive a threshold from a sample of the magnitudes and select the whole vector with it.
#pragma once

#include "selectors/magnitudes.h"
#include "selectors/selection.h"

namespace sparsecoll {

// One window over everything, at most its room is kept: 2 k, or 32 k for a faithful method, whose count may go far
// astray; what is more stays in the residual, smallest magnitudes first.
// Once the sample is there, `published` sets the threshold of a faithful method, else `corrected`, with the closed
// loop.
SelectionPlan planSampledThreshold(const SelectionRequest& request, const Rule& published, const Rule& corrected);

// Entries of at least the threshold travel; nothing does if it is not a positive number.
void setThreshold(Control& control, double threshold);

// k / n, and the same times the correction, control.kept[3], which every cut multiplies by
// clamp(k / found, 1/2, 2)^(1/2).
double shareWanted(const Control& control);
double requestedShare(const Control& control);

}  // namespace sparsecoll
