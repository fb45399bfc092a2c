// Ok-Topk's local selection (Li and Hoefler, PPoPP 2022): the smallest magnitude of an exact top k is the threshold of
// the steps that follow.
//
// Faithful: every 32 steps are exact. In between the threshold moves by 1.2 % where fewer than 2 k / 3 or more than 5 k
// / 4 entries passed; at most 4 k / 3 travel (the code raises its threshold by 3 % up to five times until no more
// pass). Default: the threshold stays a little below the last k-th magnitude. Where k entries or more pass, the k
// largest of them travel, and their smallest is the next one: an exact step for nothing. Where fewer pass it sinks with
// their number; should a tenth of k be missing, the next step reads the vector for an exact top k.
#include <algorithm>
#include <cmath>

#include "core/numeric.h"
#include "selectors/selectors.h"

namespace sparsecoll {

namespace {

constexpr uint64_t kPeriod = 32;
constexpr double kRoom = 4.0 / 3;
constexpr double kGuard = 0.9;     // of the threshold, in exact steps
constexpr double kBelow = 0.985;   // of the k-th magnitude
constexpr double kGain = 1.0 / 8;  // tails of gradients lose about x^8 of their entries per factor x of the threshold
constexpr double kFew = 0.9;

double& due(Control& control) { return control.kept[0]; }  // 1: the next step is an exact one

void setKey(Control& control, double threshold) {
  Window& window = control.windows[0];
  const bool isDouble = control.isDouble != 0;
  if (control.k >= control.n)
    window.key = 0;
  else if (threshold == 0)
    window.key = infinityKey(isDouble);
  else
    window.key = std::max<uint64_t>(keyOfThreshold(threshold, isDouble), 1);
}

void start(Control& control, bool exact) {
  Window& window = control.windows[0];
  window.exact = exact ? 1 : 0;
  window.limit = std::min(control.k, window.room);
  setKey(control, exact ? kGuard * control.threshold : control.threshold);
}

// 0 where that is no number: then the next step is an exact one, too.
double kthMagnitude(const Control& control) {
  const bool isDouble = control.isDouble != 0;
  const uint64_t key = control.windows[0].keptKey;
  return key < infinityKey(isDouble) ? thresholdOfKey(key, isDouble) : 0;
}

double passedOver(const Control& control) {
  return static_cast<double>(control.windows[0].found) / static_cast<double>(control.k);
}

void before(Control& control) { start(control, due(control) != 0 || control.threshold == 0); }

// Not an overflow: the threshold is meant to let some more pass.
void takeLargest(Control& control) {
  Window& window = control.windows[0];
  if (window.found >= control.k) window.exact = 1;
}

void afterCut(Control& control) {
  if (control.k == 0) return;
  if (control.windows[0].exact != 0) {
    control.threshold = kBelow * kthMagnitude(control);
    due(control) = 0;
    return;
  }
  const double x = passedOver(control);
  due(control) = x < kFew ? 1 : 0;
  control.threshold *= ((1 + kGain) * x + (1 - kGain)) / ((1 - kGain) * x + (1 + kGain));
}

void beforeFaithful(Control& control) {
  start(control, control.iteration % kPeriod == 0 || control.threshold == 0);
  Window& window = control.windows[0];
  if (window.exact == 0 && control.k != 0) window.limit = window.room;
}

void afterCutFaithful(Control& control) {
  if (control.k == 0) return;
  if (control.windows[0].exact != 0) {
    control.threshold = kthMagnitude(control);
    return;
  }
  const double x = passedOver(control);
  if (x < 2.0 / 3) control.threshold /= 1.012;
  if (x > 5.0 / 4) control.threshold *= 1.012;
}

constexpr Rule kBefore = ruleOf<before>("reuse-before");
constexpr Rule kTakeLargest = ruleOf<takeLargest>("reuse-take");
constexpr Rule kAfterCut = ruleOf<afterCut>("reuse-after");
constexpr Rule kBeforeFaithful = ruleOf<beforeFaithful>("reuse-faithful-before");
constexpr Rule kAfterCutFaithful = ruleOf<afterCutFaithful>("reuse-faithful-after");

}  // namespace

Result<SelectionPlan> planReusedTopK(const SelectionRequest& request) {
  const Wanted wanted = wantedOf(request);
  SelectionPlan plan;
  plan.k = wanted.now;
  plan.mostEntries = wanted.most;
  plan.capacity = wanted.most;
  if (request.faithful) {
    plan.capacity = std::min(request.n, static_cast<uint64_t>(std::ceil(kRoom * static_cast<double>(wanted.most))));
    plan.before = &kBeforeFaithful;
    plan.afterCut = &kAfterCutFaithful;
  } else {
    plan.before = &kBefore;
    plan.afterPass = &kTakeLargest;
    plan.afterCut = &kAfterCut;
  }
  WindowPlan window;
  window.end = request.n;
  window.room = plan.capacity;
  window.slots = std::min(request.n, 3 * plan.capacity + 16384);
  plan.windows.push_back(window);
  return plan;
}

}  // namespace sparsecoll
