// RedSync (Fang, Fu, Yang and Hsieh, JPDC 2019): the threshold is searched between the mean and the largest magnitude
// by halving. Faithful: at most three halvings, ended early by a count between k and 2 k; the published test moves the
// upper end below k / 2 only, so it often ends far off. Default: halvings until the count is within 1 % of k.
// Counts come from the histogram of a sample, and the largest magnitude is the sample's.
#include "selectors/closed_loop.h"
#include "selectors/rules.h"
#include "selectors/selectors.h"

namespace sparsecoll {

Result<SelectionPlan> planRedSync(const SelectionRequest& request) {
  return planSampledThreshold(request, kRedSyncFaithful, kRedSyncDefault);
}

}  // namespace sparsecoll
