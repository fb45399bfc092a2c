// CLT-k (Chen et al., NeurIPS 2020, "ScaleCom"): one rank selects the top k of its own acc, and all ranks send their
// values there. The leader rotates. Only the leader selects; the others' lists are empty. Its guard is the k-th
// magnitude of its last turn, lowered as far as that has moved before.
#include <algorithm>
#include <cmath>

#include "core/numeric.h"
#include "selectors/selectors.h"

namespace sparsecoll {

namespace {

constexpr double kFirstSpread = 0.1;
constexpr double kLeastSpread = 0.004;
constexpr double kMostSpread = 0.3;
constexpr double kForget = 0.9;
constexpr double kSafety = 1.5;

void takeTurn(Control& control) {
  Window& window = control.windows[0];
  const bool isDouble = control.isDouble != 0;
  const bool leads = control.iteration % control.ranks == control.rank;
  window.limit = leads ? control.k : 0;
  window.key = infinityKey(isDouble);
  if (!leads || control.k == 0) return;
  if (control.k >= control.n)
    window.key = 0;
  else if (window.keptBefore > 0)
    window.key = std::max<uint64_t>(keyOfThreshold((1 - kSafety * window.spread) * window.keptBefore, isDouble), 1);
}

void noteGuard(Control& control) {
  Window& window = control.windows[0];
  if (window.kept == 0) return;
  const bool isDouble = control.isDouble != 0;
  const double kept = thresholdOfKey(std::min(window.keptKey, infinityKey(isDouble) - 1), isDouble);
  double spread = window.spread * kForget;
  if (window.keptBefore > 0 && kept > 0) spread = std::max(spread, std::abs(kept / window.keptBefore - 1));
  window.spread = std::clamp(spread, kLeastSpread, kMostSpread);
  window.keptBefore = kept;
  control.threshold = kept;
}

constexpr Rule kTakeTurn = ruleOf<takeTurn>("leader-turn");
constexpr Rule kNoteGuard = ruleOf<noteGuard>("leader-guard");

}  // namespace

Result<SelectionPlan> planLeaderTopK(const SelectionRequest& request) {
  const Wanted wanted = wantedOf(request);
  SelectionPlan plan;
  plan.k = wanted.now;
  plan.capacity = plan.mostEntries = wanted.most;
  plan.before = &kTakeTurn;
  plan.afterCut = &kNoteGuard;
  WindowPlan window;
  window.end = request.n;
  window.room = wanted.most;
  window.slots = std::min(request.n, 3 * wanted.most + 16384);
  window.spread = kFirstSpread;
  plan.windows.push_back(window);
  return plan;
}

}  // namespace sparsecoll
