#include <algorithm>
#include <cmath>

#include "core/crew.h"
#include "core/math.h"
#include "core/numeric.h"
#include "selectors/rules.h"

namespace sparsecoll {

namespace {

constexpr double kLeastSpread = 0.002;
constexpr double kMostSpread = 0.3;
constexpr double kForget = 0.97;  // of the spread, a step
constexpr double kSafety = 1.5;

// A guard just below the next k-th magnitude leaves few candidates to cut; one above it makes the step read the vector
// again. So the guard stays as far below as that magnitude has lately moved between steps, and half as much more.
SC_BOTH double nextSpread(const Window& window, double kept) {
  double spread = window.spread * (window.missed == kGuardTooLow ? 0.5 : kForget);
  if (window.keptBefore > 0 && kept > 0) spread = std::max(spread, std::abs(kept / window.keptBefore - 1));
  return clamped(spread, kLeastSpread, kMostSpread);
}

SC_BOTH void moveGuard(Window& window, bool isDouble) {
  const uint64_t infinity = infinityKey(isDouble);
  if (window.limit >= window.end - window.begin) {
    window.key = 0;
    return;
  }
  if (window.kept == 0) {
    window.key = infinity;
    return;
  }
  const double kept = thresholdOfKey(std::min(window.keptKey, infinity - 1), isDouble);
  window.spread = nextSpread(window, kept);
  window.keptBefore = kept;
  const uint64_t guard = keyOfThreshold((1 - kSafety * window.spread) * kept, isDouble);
  window.key = std::max<uint64_t>(guard, 1);  // 0 would make every zero a candidate
}

SC_BOTH void tellThreshold(Control& control) {
  const Window& last = control.windows[control.windowCount - 1];
  const bool isDouble = control.isDouble != 0;
  control.threshold = last.kept != 0 ? thresholdOfKey(std::min(last.keptKey, infinityKey(isDouble) - 1), isDouble) : 0;
}

SC_BOTH void afterCut(Control& control, const Crew& crew) {
  const bool isDouble = control.isDouble != 0;
  crew.alone([&] { tellThreshold(control); });
  crew.each(control.windowCount, [&](uint64_t w) { moveGuard(control.windows[w], isDouble); });
}

}  // namespace

constinit const Rule kTopKAfterCut = ruleOf<afterCut>("topk");

}  // namespace sparsecoll
