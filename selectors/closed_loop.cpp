#include "selectors/closed_loop.h"

#include <algorithm>

#include "core/numeric.h"
#include "selectors/rules.h"
#include "selectors/sampled_threshold.h"

namespace sparsecoll {

namespace {

constexpr uint64_t kRoom = 2;

}  // namespace

SelectionPlan planSampledThreshold(const SelectionRequest& request, const Rule& corrected) {
  const Wanted wanted = wantedOf(request);
  SelectionPlan plan;
  plan.k = wanted.now;
  plan.mostEntries = wanted.most;
  plan.capacity = std::min(request.n, kRoom * wanted.most);
  plan.samples = true;
  plan.state.keep(&ClosedLoop::correction, Sound::kMagnitude);
  plan.state.keep(&ClosedLoop::foundNone, Sound::kFlag);
  plan.afterSample = &corrected;
  plan.afterCut = &kCorrectShare;
  WindowPlan window;
  window.end = request.n;
  window.limit = request.selectNothing ? 0 : plan.capacity;
  window.room = plan.capacity;
  window.slots = std::min(request.n, plan.capacity + 256);
  window.key = infinityKey(request.accumulateType == sparsecollFloat64);
  window.exact = false;
  plan.windows.push_back(window);
  return plan;
}

}  // namespace sparsecoll
