#include "core/crew.h"
#include "selectors/candidate_key.h"
#include "selectors/rules.h"

namespace sparsecoll {

namespace {

constexpr double kLeastSpread = 0.002;
constexpr double kForget = 0.97;
constexpr double kForgetTooLow = 0.5;  // there were more candidates than room

// Of many windows a few may be read again in every step: that costs less than more candidates in all of them.
constexpr uint32_t kManyWindows = 256;
constexpr double kSafetyOfMany = 1;

SC_BOTH void moveKey(Window& window, bool isDouble, double safety) {
  if (window.limit >= window.end - window.begin) {
    window.key = 0;
    return;
  }
  if (window.kept == 0) {
    window.key = infinityKey(isDouble);
    return;
  }
  noteKept(window, keptMagnitude(window, isDouble), kLeastSpread,
           window.missed == kKeyTooLow ? kForgetTooLow : kForget);
  window.key = keyBelow(window, isDouble, safety);
}

SC_BOTH void tellThreshold(Control& control) {
  const Window& only = control.windows[0];
  control.threshold = control.windowCount == 1 && only.kept != 0 ? keptMagnitude(only, control.isDouble != 0) : 0;
}

SC_BOTH void afterCut(Control& control, const Crew& crew) {
  const bool isDouble = control.isDouble != 0;
  const double safety = control.windowCount < kManyWindows ? kUsualSafety : kSafetyOfMany;
  crew.alone([&] { tellThreshold(control); });
  crew.each(control.windowCount, [&](uint64_t w) { moveKey(control.windows[w], isDouble, safety); });
}

}  // namespace

constinit const Rule kTopKAfterCut = ruleOf<afterCut>("topk");

}  // namespace sparsecoll
