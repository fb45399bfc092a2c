// GaussianK (Shi, Chu, Cheung and See 2019, "Understanding top-k sparsification in distributed deep learning"): the
// magnitudes are taken for those of a normal variable of the same second moment, whose quantile is the threshold; then
// up to 20 trials move it by 2 % while it keeps less than 3 k / 4 or more than 5 k / 4. Trials are counted in the
// histogram of a sample and cost no pass. Default: as many trials as it takes to come within 1 % of k, each turn
// halving the step, and a closed loop on what was found.
#include "selectors/closed_loop.h"
#include "selectors/rules.h"
#include "selectors/selectors.h"

namespace sparsecoll {

Result<SelectionPlan> planGaussian(const SelectionRequest& request) {
  return planSampledThreshold(request, kGaussianFaithful, kGaussianDefault);
}

}  // namespace sparsecoll
