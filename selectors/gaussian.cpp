// GaussianK (Shi, Chu, Cheung and See 2019, "Understanding top-k sparsification in distributed deep learning"): the
// magnitudes are taken for those of a normal variable of the same second moment, whose quantile is the threshold; then
// up to 20 trials move it by 2 % while it keeps less than 3 k / 4 or more than 5 k / 4. Trials are counted in the
// histogram of a sample and cost no pass. Default: as many trials as it takes to come within 1 % of k, each turn
// halving the step, and a closed loop on what was found.
#include "selectors/closed_loop.h"
#include "selectors/rules.h"
#include "selectors/selectors.h"

namespace sparsecoll {

namespace {

Result<SelectionPlan> planGaussian(const SelectionRequest& request) {
  return planSampledThreshold(request, kGaussianFaithful, kGaussianDefault);
}

constexpr const char* kPaper = "Shi et al. 2019 (GaussianK), arXiv:1911.08772";

constexpr PresetRow kPresets[] = {
    {.name = "gaussiank",
     .summary = "threshold from a normal fit and a few trials",
     .paper = kPaper,
     .selector = sparsecollSelectGaussian,
     .collective = sparsecollCollAllGather},
};

}  // namespace

constinit extern const SelectorRow kGaussianRow = {
    .id = sparsecollSelectGaussian,
    .name = "gaussian",
    .paper = kPaper,
    .plan = planGaussian,
    .collective = sparsecollCollAllGather,
    .bound = {1, 16},
    .faithfulBound = {1, 200},
    .presets = kPresets,
};

}  // namespace sparsecoll
