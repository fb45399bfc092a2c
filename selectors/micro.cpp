// MiCRO (Yoon and Oh, HiPC 2023, arXiv:2310.00967): rank r selects only in partition (t + r) mod P, by one threshold
// that all ranks share (shared_threshold.h).
//
// Faithful: first threshold 1 / (2 sqrt(k)); afterwards times 1.005 above k / 0.909, times 1.00125 inside the band (the
// published code never takes its other branch there), times 0.995 below; an empty selection sends one forced index.
#include "selectors/rules.h"
#include "selectors/selectors.h"
#include "selectors/shared_threshold.h"

namespace sparsecoll {

namespace {

constexpr double kRoom = 2.5;  // messages hold this many times k / P

Result<SelectionPlan> planMicro(const SelectionRequest& request) {
  const auto ranks = static_cast<uint64_t>(request.ranks);
  SelectionPlan plan;
  planSharedThreshold(request, kRoom, (request.n + ranks - 1) / ranks, plan);
  plan.before = request.faithful() ? &kMicroBeforeFaithful : &kMicroBefore;
  plan.afterExchange = request.faithful() ? &kMicroAfterFaithful : &kMicroAfter;
  return plan;
}

constexpr const char* kPaper = "Yoon and Oh 2023 (MiCRO), arXiv:2310.00967";

constexpr PresetRow kPresets[] = {
    {.name = "micro",
     .summary = "exclusive partitions in rotation, one threshold steered to k",
     .paper = kPaper,
     .selector = sparsecollSelectMicro,
     .collective = sparsecollCollIndexUnion},
};

}  // namespace

constinit extern const SelectorRow kMicroRow = {
    .id = sparsecollSelectMicro,
    .name = "micro",
    .paper = kPaper,
    .plan = planMicro,
    .collective = sparsecollCollIndexUnion,
    .densityIsGlobal = true,
    .bound = {1, 40},
    .faithfulBound = {9, 40},
    .presets = kPresets,
};

}  // namespace sparsecoll
