// GaussianK (Shi, Chu, Cheung and See 2019, "Understanding top-k sparsification in distributed deep learning"): the
// magnitudes are taken for those of a normal variable of the same second moment, whose quantile is the threshold; then
// trials move it.
//
// Faithful, 1: Shi et al.'s trials, up to three, which halve it below 2 k / 3 and multiply it by 1.5 above 4 k / 3.
// Faithful, 2: those of the GaussianK in Li and Hoefler's Ok-Topk, up to 20 by 2 %, below 3 k / 4 and above 5 k / 4.
// Default: as many trials as it takes to come within 1 % of k, each turn halving the step, counted in the histogram of
// a sample, and a closed loop on what was found.
#include "selectors/closed_loop.h"
#include "selectors/rules.h"
#include "selectors/selectors.h"
#include "selectors/swept.h"

namespace sparsecoll {

namespace {

constexpr uint64_t kRoomOfShi = 64;  // two halvings can take a threshold below what most entries have
constexpr uint64_t kRoomOfOkTopk = 32;

Result<SelectionPlan> planGaussian(const SelectionRequest& request) {
  if (request.params.faithful == 1) return planSwept(request, kGaussianOfShi, kRoomOfShi);
  if (request.params.faithful == 2) return planSwept(request, kGaussianOfOkTopk, kRoomOfOkTopk);
  return planSampledThreshold(request, kGaussianDefault);
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
    .faithfulBound = {1, 400},
    .presets = kPresets,
    .publishedRules = 2,
};

}  // namespace sparsecoll
