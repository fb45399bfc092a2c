// SIDCo (Abdelmoniem, Elzanaty, Alouini and Canini, MLSys 2021): a distribution is fitted to the magnitudes by moments,
// its quantile is the threshold, and stages refit the tail above the threshold so far ("peaks over threshold").
//
// With M stages the first keeps a quarter and the others share the rest of the way evenly.
// Faithful: M starts at 1; every 5 steps it moves by one against the mean of kept / k if that is outside 0.8 to 1.2
// (the published rule). Every stage sweeps the vector. Default: all stages come from one histogram of a sample, taken
// before the fused pass, so that the pass already compares with the threshold. M = 3, and the density that is asked of
// the fit is multiplied by clamp(k / kept, 1/2, 2)^(1/2) from step to step, so that what the fit gets wrong does not
// stay wrong.
#include "selectors/sidco.h"

#include "selectors/closed_loop.h"
#include "selectors/rules.h"
#include "selectors/selectors.h"
#include "selectors/swept.h"

namespace sparsecoll {

namespace {

constexpr uint64_t kRoomFaithful = 64;  // one stage goes far astray in heavy tails

Result<SelectionPlan> planSidco(const SelectionRequest& request) {
  const SidcoRules& rules = sidcoRulesOf(static_cast<sparsecollDistribution_t>(request.params.distribution));
  if (!request.faithful()) return planSampledThreshold(request, rules.fitDefault);
  SelectionPlan plan = planSwept(request, rules.fitFaithful, kRoomFaithful);
  plan.afterCut = &kSidcoAdaptStages;
  plan.state.keep(&SidcoState::stages, Sound::kMagnitude);
  plan.state.keep(&SidcoState::steps, Sound::kMagnitude);
  plan.state.keep(&SidcoState::quality, Sound::kMagnitude);
  return plan;
}

constexpr const char* kPaper = "Abdelmoniem et al. 2021 (SIDCo), arXiv:2101.10761";

constexpr PresetRow kPresets[] = {
    {.name = "sidco-e",
     .summary = "threshold from fitted exponential tails",
     .paper = kPaper,
     .selector = sparsecollSelectSidco,
     .collective = sparsecollCollAllGather,
     .distribution = sparsecollDistributionExponential},
    {.name = "sidco-gp",
     .summary = "threshold from a gamma fit, then Pareto tails",
     .paper = kPaper,
     .selector = sparsecollSelectSidco,
     .collective = sparsecollCollAllGather,
     .distribution = sparsecollDistributionGammaPareto},
    {.name = "sidco-p",
     .summary = "threshold from fitted generalised Pareto tails",
     .paper = kPaper,
     .selector = sparsecollSelectSidco,
     .collective = sparsecollCollAllGather,
     .distribution = sparsecollDistributionPareto},
};

}  // namespace

constinit extern const SelectorRow kSidcoRow = {
    .id = sparsecollSelectSidco,
    .name = "sidco",
    .paper = kPaper,
    .plan = planSidco,
    .collective = sparsecollCollAllGather,
    .bound = {1, 16},
    .faithfulBound = {1, 400},
    .presets = kPresets,
};

}  // namespace sparsecoll
