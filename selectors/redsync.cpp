// RedSync (Fang, Fu, Yang and Hsieh, JPDC 2019): the threshold is searched between the mean and the largest magnitude
// by halving. Faithful: at most three halvings, ended early by a count between k and 2 k; the published test moves the
// upper end below k / 2 only, so it often ends far off. Default: halvings until the count is within 1 % of k, with
// counts, mean and largest magnitude of the histogram of a sample.
#include "selectors/closed_loop.h"
#include "selectors/rules.h"
#include "selectors/selectors.h"
#include "selectors/swept.h"

namespace sparsecoll {

namespace {

constexpr uint64_t kRoomFaithful = 32;  // its count may go far astray

Result<SelectionPlan> planRedSync(const SelectionRequest& request) {
  return request.faithful() ? planSwept(request, kRedSyncFaithful, kRoomFaithful)
                            : planSampledThreshold(request, kRedSyncDefault);
}

constexpr const char* kPaper = "Fang et al. 2019 (RedSync), arXiv:1808.04357";

constexpr PresetRow kPresets[] = {
    {.name = "redsync",
     .summary = "threshold searched between mean and maximum",
     .paper = kPaper,
     .selector = sparsecollSelectRedSync,
     .collective = sparsecollCollAllGather},
};

}  // namespace

constinit extern const SelectorRow kRedSyncRow = {
    .id = sparsecollSelectRedSync,
    .name = "redsync",
    .paper = kPaper,
    .plan = planRedSync,
    .collective = sparsecollCollAllGather,
    .bound = {1, 16},
    .faithfulBound = {1, 200},
    .presets = kPresets,
};

}  // namespace sparsecoll
