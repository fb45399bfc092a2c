// The selectors, one plan function each. A new method adds its file and a line here.
#pragma once

#include "selectors/selection.h"

namespace sparsecoll {

Result<SelectionPlan> planTopK(const SelectionRequest& request);
Result<SelectionPlan> planThreshold(const SelectionRequest& request);
Result<SelectionPlan> planMicro(const SelectionRequest& request);
Result<SelectionPlan> planExDyna(const SelectionRequest& request);
Result<SelectionPlan> planDeft(const SelectionRequest& request);
Result<SelectionPlan> planRandom(const SelectionRequest& request);
Result<SelectionPlan> planChunkTopK(const SelectionRequest& request);
Result<SelectionPlan> planReusedTopK(const SelectionRequest& request);
Result<SelectionPlan> planSidco(const SelectionRequest& request);
Result<SelectionPlan> planSage(const SelectionRequest& request);
Result<SelectionPlan> planGaussian(const SelectionRequest& request);
Result<SelectionPlan> planRedSync(const SelectionRequest& request);
Result<SelectionPlan> planSampled(const SelectionRequest& request);
Result<SelectionPlan> planLeaderTopK(const SelectionRequest& request);

}  // namespace sparsecoll
