// Ok-Topk's local selection (Li and Hoefler, PPoPP 2022): every 32 steps the exact top k, whose smallest magnitude
// becomes the threshold of the steps in between.
//
// Faithful: in between the threshold moves by 1.2 % where fewer than 2 k / 3 or more than 5 k / 4 entries passed; at
// most 4 k / 3 travel (the code raises its threshold by 3 % up to five times until no more pass). Default: it follows
// the count in every step, and a count more than a quarter off k makes the next step an exact one.
#include <algorithm>
#include <cmath>

#include "core/numeric.h"
#include "selectors/selectors.h"

namespace sparsecoll {

namespace {

constexpr uint64_t kPeriod = 32;
constexpr double kRoom = 4.0 / 3;
constexpr double kGuard = 0.9;  // of the threshold, in exact steps
constexpr double kGain = 1.0 / 8;
constexpr double kBand = 0.25;

double& due(Control& control) { return control.kept[0]; }  // 1: the next step is an exact one

void before(Control& control) {
  Window& window = control.windows[0];
  const bool isDouble = control.isDouble != 0;
  const bool exact = due(control) != 0 || control.iteration % kPeriod == 0 || control.threshold == 0;
  window.exact = exact ? 1 : 0;
  window.limit = control.k == 0 ? 0 : exact ? std::min(control.k, window.room) : window.room;
  if (control.k >= control.n)
    window.key = 0;
  else if (control.threshold == 0)
    window.key = infinityKey(isDouble);
  else
    window.key = std::max<uint64_t>(keyOfThreshold((exact ? kGuard : 1) * control.threshold, isDouble), 1);
}

// Entries over k that passed the threshold; 0 after an exact step, which only takes its threshold.
double passedOver(Control& control) {
  const Window& window = control.windows[0];
  if (control.k == 0) return 0;
  if (window.exact == 0) return static_cast<double>(window.found) / static_cast<double>(control.k);
  const bool isDouble = control.isDouble != 0;
  control.threshold = thresholdOfKey(std::min(window.keptKey, infinityKey(isDouble) - 1), isDouble);
  due(control) = 0;
  return 0;
}

void afterCut(Control& control) {
  const bool exact = control.windows[0].exact != 0;
  const double x = passedOver(control);
  if (exact || control.k == 0) return;
  due(control) = x < 1 - kBand || x > 1 + kBand ? 1 : 0;
  control.threshold *= ((1 + kGain) * x + (1 - kGain)) / ((1 - kGain) * x + (1 + kGain));
}

void afterCutFaithful(Control& control) {
  const bool exact = control.windows[0].exact != 0;
  const double x = passedOver(control);
  if (exact || control.k == 0) return;
  if (x < 2.0 / 3) control.threshold /= 1.012;
  if (x > 5.0 / 4) control.threshold *= 1.012;
}

constexpr Rule kBefore = {"reuse-before", before};
constexpr Rule kAfterCut = {"reuse-after", afterCut};
constexpr Rule kAfterCutFaithful = {"reuse-faithful-after", afterCutFaithful};

}  // namespace

Result<SelectionPlan> planReusedTopK(const SelectionRequest& request) {
  const Wanted wanted = wantedOf(request);
  SelectionPlan plan;
  plan.k = wanted.now;
  plan.mostEntries = wanted.most;
  plan.capacity = std::min(request.n, static_cast<uint64_t>(std::ceil(kRoom * static_cast<double>(wanted.most))));
  plan.before = &kBefore;
  plan.afterCut = request.faithful ? &kAfterCutFaithful : &kAfterCut;
  WindowPlan window;
  window.end = request.n;
  window.room = plan.capacity;
  window.slots = std::min(request.n, 3 * plan.capacity + 16384);
  plan.windows.push_back(window);
  return plan;
}

}  // namespace sparsecoll
