// DGC's selection (Lin, Han, Mao, Wang and Dally, ICLR 2018, "Deep Gradient Compression"): the threshold is the
// quantile of a sample; where far more than k entries exceed it, the exact top k among them is taken. Far more is 4 k /
// 3, as in the code published with SIDCo.
//
// Faithful: the sample has 1 % of the entries, drawn at random from the histogram of a sample, t = ceil(share of it)
// gives the t-th largest, and entries above that travel. Default: the quantile of the whole sample, the threshold
// itself included, and a closed loop on what was found.
#include <algorithm>

#include "selectors/closed_loop.h"
#include "selectors/rules.h"
#include "selectors/selectors.h"

namespace sparsecoll {

namespace {

Result<SelectionPlan> planSampled(const SelectionRequest& request) {
  SelectionPlan plan = planSampledThreshold(request, kSampledFaithful, kSampledDefault);
  plan.afterPass = &kSelectAgain;
  plan.capacity = std::min(request.n, mostSampled(plan.mostEntries));
  WindowPlan& window = plan.windows[0];
  window.limit = request.selectNothing ? 0 : plan.capacity;
  window.room = plan.capacity;
  window.slots = std::min(request.n, 3 * plan.capacity + 16384);
  return plan;
}

constexpr const char* kPaper = "Lin et al. 2018 (DGC), arXiv:1712.01887";

constexpr PresetRow kPresets[] = {
    {.name = "dgc",
     .summary = "threshold from a sample's quantile, momentum in front of the residual",
     .paper = kPaper,
     .selector = sparsecollSelectSampled,
     .collective = sparsecollCollAllGather,
     .momentum = 0.9},
};

}  // namespace

constinit extern const SelectorRow kSampledRow = {
    .id = sparsecollSelectSampled,
    .name = "sampled",
    .paper = kPaper,
    .plan = planSampled,
    .collective = sparsecollCollAllGather,
    .bound = {1, 16},
    .faithfulBound = {1, 16},
    .presets = kPresets,
};

}  // namespace sparsecoll
