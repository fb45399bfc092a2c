#include <algorithm>

#include "core/numeric.h"
#include "selectors/kth_largest.h"
#include "selectors/reused_topk.h"
#include "selectors/rules.h"
#include "selectors/sweeps.h"

namespace sparsecoll {

namespace {

constexpr uint64_t kPeriod = 32;
constexpr double kKeyShare = 0.9;  // of the threshold, in exact steps
constexpr double kBelow = 0.985;   // of the k-th magnitude
constexpr double kGain = 1.0 / 8;  // tails of gradients lose about x^8 of their entries per factor x of the threshold
constexpr double kFew = 0.9;
constexpr double kRise = 1.03;  // published
constexpr int kRises = 5;

SC_BOTH uint64_t& due(Control& control) { return control.selector.as<ReusedTopKState>().due; }

SC_BOTH void setKey(Control& control, double threshold) {
  Window& window = control.windows[0];
  const bool isDouble = control.isDouble != 0;
  if (control.k >= control.n)
    window.key = 0;
  else if (threshold == 0)
    window.key = infinityKey(isDouble);
  else
    window.key = std::max<uint64_t>(keyOfThreshold(threshold, isDouble), 1);
}

SC_BOTH void start(Control& control, bool exact) {
  Window& window = control.windows[0];
  window.exact = exact ? 1 : 0;
  window.limit = std::min(control.k, window.room);
  setKey(control, exact ? kKeyShare * control.threshold : control.threshold);
}

// 0 where that is no number: then the next step is an exact one, too.
SC_BOTH double kthMagnitude(const Control& control) {
  const bool isDouble = control.isDouble != 0;
  const uint64_t key = control.windows[0].keptKey;
  return key < infinityKey(isDouble) ? thresholdOfKey(key, isDouble) : 0;
}

SC_BOTH double passedOver(const Control& control) {
  return static_cast<double>(control.windows[0].found) / static_cast<double>(control.k);
}

SC_BOTH void beforeReuse(Control& control) { start(control, due(control) != 0 || control.threshold == 0); }

// Not an overflow: the threshold is meant to let some more pass.
SC_BOTH void takeLargest(Control& control) {
  Window& window = control.windows[0];
  if (window.found >= control.k) window.exact = 1;
}

SC_BOTH void afterCutReuse(Control& control) {
  if (control.k == 0) return;
  if (control.windows[0].exact != 0) {
    control.threshold = kthMagnitude(control);
    moveThreshold(control, kBelow * control.threshold);
    due(control) = 0;
    return;
  }
  const double x = passedOver(control);
  due(control) = x < kFew ? 1 : 0;
  const double change = ((1 + kGain) * x + (1 - kGain)) / ((1 - kGain) * x + (1 + kGain));
  moveThreshold(control, control.threshold * change);
}

// As published, the k-th magnitude itself does not exceed the threshold. In between the threshold rises in a step in
// which too many exceed it, and stays there.
template <class A>
SC_BOTH void selectFaithful(Control& control, const Sweeps<A>& acc, const A* values, const Crew& crew) {
  const uint64_t k = control.k;
  double threshold = control.threshold;
  uint64_t count = 0;
  if (control.iteration % kPeriod == 0 || threshold == 0) {
    threshold = k != 0 ? kthLargest(values, 0, control.n, 1, k, crew) : 0;
    count = acc.above(threshold);
  } else {
    count = acc.above(threshold);
    for (int rise = 0; rise < kRises && count > 4 * k / 3; ++rise) {
      threshold *= kRise;
      count = acc.above(threshold);
    }
  }
  keepCounted(control, crew, threshold, count);
}

SC_BOTH void sweepReuse(const ListRuleArgs& args, const Crew& crew) {
  Control& control = *args.control;
  withSweeps(args, crew, [&]<class A>(const Sweeps<A>& acc) {
    selectFaithful(control, acc, static_cast<const A*>(args.acc), crew);
  });
}

SC_BOTH void afterCutFaithfulReuse(Control& control) {
  if (control.k == 0) return;
  const double x = static_cast<double>(control.windows[0].kept) / static_cast<double>(control.k);
  moveThreshold(control, x < 2.0 / 3   ? control.threshold / 1.012
                         : x > 5.0 / 4 ? control.threshold * 1.012
                                       : control.threshold);
}

}  // namespace

constinit const Rule kReuseBefore = ruleOf<beforeReuse>("reuse-before");
constinit const Rule kReuseTakeLargest = ruleOf<takeLargest>("reuse-take");
constinit const Rule kReuseAfterCut = ruleOf<afterCutReuse>("reuse-after");
constinit const ListRule kReuseFaithful = crewListRuleOf<sweepReuse>("reuse-faithful");
constinit const Rule kReuseAfterCutFaithful = ruleOf<afterCutFaithfulReuse>("reuse-faithful-after");

}  // namespace sparsecoll
