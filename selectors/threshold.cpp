// A fixed threshold (Dutta et al. 2021, "Rethinking gradient sparsification as total error minimization"; its default
// is 1 / (2 sqrt(k))). How many entries pass is not under control, so messages have room for four times k, and what is
// more stays in the residual, smallest magnitudes first. Faithful: they have room for all entries, and nothing is cut.
#include <algorithm>

#include "selectors/selectors.h"

namespace sparsecoll {

namespace {

constexpr uint64_t kRoom = 4;

Result<SelectionPlan> planThreshold(const SelectionRequest& request) {
  const Wanted wanted = wantedOf(request);
  SelectionPlan plan;
  plan.k = wanted.now;
  plan.mostEntries = wanted.most;
  plan.capacity = request.faithful() ? request.n : std::min(request.n, kRoom * wanted.most);
  plan.threshold = firstThreshold(request.params.threshold, wanted.now);
  WindowPlan window;
  window.end = request.n;
  window.limit = request.selectNothing ? 0 : plan.capacity;
  window.room = plan.capacity;
  window.slots = std::min(request.n, plan.capacity + 256);
  window.key = keyOfThreshold(plan.threshold, request.accumulateType == sparsecollFloat64);
  window.exact = false;
  plan.windows.push_back(window);
  return plan;
}

constexpr const char* kPaper = "Dutta et al. 2021";

constexpr PresetRow kPresets[] = {
    {.name = "threshold",
     .summary = "a fixed threshold, values summed at the union",
     .paper = kPaper,
     .selector = sparsecollSelectThreshold,
     .collective = sparsecollCollIndexUnion},
};

}  // namespace

constinit extern const SelectorRow kThresholdRow = {
    .id = sparsecollSelectThreshold,
    .name = "threshold",
    .paper = kPaper,
    .plan = planThreshold,
    .collective = sparsecollCollIndexUnion,
    .bound = {1, 40},
    .faithfulBound = {4, 40},
    .presets = kPresets,
};

}  // namespace sparsecoll
