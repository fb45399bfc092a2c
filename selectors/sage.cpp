// SAGE (Yoon, Jeong and Oh, J. Supercomputing 2023): the threshold follows the mean magnitude (alpha), and is nudged by
// what a scan with it would keep (beta, gamma). Each rank has its own.
//
// Faithful: alpha is the ratio of the means of Slovin's n / (1 + 0.05^2 n) drawn entries, beta = 2 / (1 + e^(d - den)),
// gamma = 0.95 below a tenth of the density, 1.05 above ten times it; the first threshold is 1 / (2 sqrt(k)). 1:
// entries are drawn as in the authors' later program, all with the same probability; 2: as in their first one, a tensor
// and then an entry of it. Default: alpha from the mean of the whole sample; in place of beta and gamma one Newton step
// in the logarithm takes the scanned density to the wanted one; the first threshold is the sample's quantile.
#include "selectors/sage.h"

#include "selectors/closed_loop.h"
#include "selectors/rules.h"
#include "selectors/selectors.h"
#include "selectors/swept.h"

namespace sparsecoll {

namespace {

constexpr uint64_t kRoomFaithful = 32;  // single steps miss by orders of magnitude

Result<SelectionPlan> planSage(const SelectionRequest& request) {
  const bool byTensor = request.params.faithful == 2;
  SelectionPlan plan =
      request.faithful() ? planSwept(request, byTensor ? kSageFaithfulByTensor : kSageFaithful, kRoomFaithful, byTensor)
                         : planSampledThreshold(request, kSageDefault);
  plan.state.keep(&SageState::meanBefore, Sound::kMagnitude);
  if (request.faithful()) plan.threshold = firstThreshold(request.params.threshold, plan.k);
  return plan;
}

constexpr const char* kPaper = "Yoon, Jeong and Oh 2023 (SAGE), doi:10.1007/s11227-023-05120-7";

constexpr PresetRow kPresets[] = {
    {.name = "sage",
     .summary = "a threshold that follows the mean magnitude",
     .paper = kPaper,
     .selector = sparsecollSelectSage,
     .collective = sparsecollCollIndexUnion},
};

}  // namespace

constinit extern const SelectorRow kSageRow = {
    .id = sparsecollSelectSage,
    .name = "sage",
    .paper = kPaper,
    .plan = planSage,
    .collective = sparsecollCollIndexUnion,
    .bound = {1, 40},
    .faithfulBound = {3, 400},
    .presets = kPresets,
    .publishedRules = 2,
};

}  // namespace sparsecoll
