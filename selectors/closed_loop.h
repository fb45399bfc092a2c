// What methods share that derive a threshold from a sample of the magnitudes and select the whole vector with it.
#pragma once

#include "selectors/magnitudes.h"
#include "selectors/selection.h"

namespace sparsecoll {

// One window over everything, at most its room is kept: 2 k, or 32 k for a faithful method, whose count may go far
// astray; what is more stays in the residual, smallest magnitudes first.
SelectionPlan planSampledThreshold(const SelectionRequest& request);

// Entries of at least the threshold travel; nothing does if it is not a positive number.
void setThreshold(Control& control, double threshold);

// k / n, and the same times the correction of the loop below.
double shareWanted(const Control& control);
double requestedShare(const Control& control);

// After the cut: the correction, control.kept[3], is multiplied by clamp(k / found, 1/2, 2)^(1/2).
extern const Rule kCorrectShare;

}  // namespace sparsecoll
