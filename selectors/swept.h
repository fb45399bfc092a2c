// Faithful methods that set a threshold from the whole of acc, with a sweep for every number that they want of it, as
// the published programs do. The pass collects nothing: a rule counts what exceeds the threshold, and the cut reads acc
// for as many.
#pragma once

#include "selectors/selection.h"

namespace sparsecoll {

// One window over everything, or one a tensor. At most `room` times k entries travel; what is more stays, smallest
// magnitudes first.
SelectionPlan planSwept(const SelectionRequest& request, const ListRule& rule, uint64_t room, bool byTensor = false);

}  // namespace sparsecoll
