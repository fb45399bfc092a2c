#include <algorithm>
#include <cmath>

#include "core/math.h"
#include "core/numeric.h"
#include "selectors/rules.h"

namespace sparsecoll {

namespace {

constexpr double kLeastSpread = 0.004;
constexpr double kMostSpread = 0.3;
constexpr double kForget = 0.9;
constexpr double kSafety = 1.5;

SC_BOTH void takeTurn(Control& control) {
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

SC_BOTH void noteGuard(Control& control) {
  Window& window = control.windows[0];
  if (window.kept == 0) return;
  const bool isDouble = control.isDouble != 0;
  const double kept = thresholdOfKey(std::min(window.keptKey, infinityKey(isDouble) - 1), isDouble);
  double spread = window.spread * kForget;
  if (window.keptBefore > 0 && kept > 0) spread = std::max(spread, std::abs(kept / window.keptBefore - 1));
  window.spread = clamped(spread, kLeastSpread, kMostSpread);
  window.keptBefore = kept;
  control.threshold = kept;
}

}  // namespace

constinit const Rule kLeaderTakeTurn = ruleOf<takeTurn>("leader-turn");
constinit const Rule kLeaderNoteGuard = ruleOf<noteGuard>("leader-guard");

}  // namespace sparsecoll
