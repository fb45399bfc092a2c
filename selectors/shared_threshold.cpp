#include "selectors/shared_threshold.h"

#include <algorithm>
#include <cmath>

#include "core/math.h"
#include "core/partition.h"

namespace sparsecoll {

namespace {

// How far the ladder reaches below and above the last threshold: as far as that has lately moved, and more.
constexpr double kFirstSpread = 0.1;
constexpr double kLeastSpread = 0.02;
constexpr double kMostSpread = 0.3;
constexpr double kForget = 0.9;
constexpr double kBelow = 1.5;  // spreads
constexpr double kAbove = 4;

// control.side: where the threshold is when the ladder does not show it.
constexpr double kBelowLadder = -1;
constexpr double kAboveLowest = 0.5;
constexpr double kAboveLadder = 1;

// What the rules keep: the ladder's lowest rung, the factor from one rung to the next; and the last threshold, or while
// one is looked for, what it is known to lie between.
double& lowest(Control& control) { return control.kept[0]; }
double& factor(Control& control) { return control.kept[1]; }
double& last(Control& control) { return control.kept[2]; }
double& bracketLow(Control& control) { return control.kept[2]; }
double& bracketHigh(Control& control) { return control.kept[3]; }  // 0: none is looked for

uint64_t keyOf(const Control& control, double threshold) { return keyOfThreshold(threshold, control.isDouble != 0); }

double rung(Control& control, uint32_t j) {
  if (lowest(control) == 0) return HUGE_VAL;
  return lowest(control) * powOf(factor(control), static_cast<double>(j));
}

void setLadder(Control& control, double low, double high) {
  lowest(control) = low;
  factor(control) = std::max(powOf(high / low, 1.0 / (kRungs - 1)), 1.0005);
}

// The entries above a threshold fall between two rungs by about the same factor on equal parts of the way.
double readThreshold(Control& control, const double* above, double k) {
  uint32_t j = 0;
  while (j + 2 < kRungs && above[j + 1] >= k) ++j;
  const double high = lnOf(above[j]);
  const double low = lnOf(std::max(above[j + 1], 0.5));
  const double part = high > low ? std::clamp((high - lnOf(k)) / (high - low), 0.0, 1.0) : 0;
  return rung(control, j) * powOf(factor(control), part);
}

// Without a common threshold each rank takes its share, the first ones an entry more.
void takeShare(Control& control) {
  Window& window = control.windows[0];
  const uint64_t part = (control.iteration % control.ranks + control.rank) % control.ranks;
  window.exact = 1;
  window.limit = std::min(evenPart(control.k, control.ranks, part).length(), window.room);
  control.threshold = 0;
}

void readLadder(Control& control) {
  if (control.k == 0) return;
  double above[kRungs] = {};
  double incomplete = 0;
  for (uint32_t r = 0; r < control.ranks; ++r) {
    const double* const row = control.survey + uint64_t{r} * kLadderRow;
    for (uint32_t j = 0; j < kRungs; ++j) above[j] += row[j];
    incomplete += row[kRungs];
  }
  const auto k = static_cast<double>(control.k);
  if (!(lowest(control) > 0 && incomplete == 0 && above[0] >= k && above[kRungs - 1] <= k)) {
    control.side = above[kRungs - 1] > k ? kAboveLadder : incomplete == 0 ? kBelowLadder : kAboveLowest;
    return takeShare(control);
  }
  control.threshold = readThreshold(control, above, k);
  control.windows[0].least = keyOf(control, control.threshold);
}

void tellShare(Control& control) {
  const Window& window = control.windows[0];
  control.told = control.threshold;
  if (window.exact == 0 || window.kept == 0) return;
  const double local = thresholdOfKey(window.keptKey, control.isDouble != 0);
  control.told = std::isfinite(local) ? local : 0;
}

// The common threshold lies between the ranks' smallest magnitudes: at the lowest of them k entries or more pass, at
// the highest k or fewer. Where they are far apart the next ladder starts half way, and what that step finds out halves
// the bracket.
void startLadder(Control& control) {
  double low = 0;
  double high = 0;
  for (uint32_t r = 0; r < control.ranks; ++r) {
    const double told = control.facts[r].threshold;
    if (!(told > 0)) continue;
    low = low == 0 ? told : std::min(low, told);
    high = std::max(high, told);
  }
  control.gain = kFirstSpread;
  double& from = bracketLow(control);
  double& to = bracketHigh(control);
  if (to > 0 && lowest(control) > 0) {
    if (control.side == kBelowLadder)
      to = lowest(control);
    else
      from = control.side == kAboveLadder ? rung(control, kRungs - 1) : lowest(control);
    from = std::max(from, low);
    if (from >= to) to = high;  // what is sent has grown since
  }
  if (!(from < to)) {
    from = low;
    to = high;
  }
  if (low == 0)
    lowest(control) = 0;
  else if (to < 2 * from)
    setLadder(control, (1 - kBelow * kFirstSpread) * from, (1 + kAbove * kFirstSpread) * to);
  else
    setLadder(control, std::sqrt(from) * std::sqrt(to), (1 + kAbove * kFirstSpread) * to);
}

}  // namespace

void climbLadder(Control& control) {
  Window& window = control.windows[0];
  const bool isDouble = control.isDouble != 0;
  if (lowest(control) == 0 && control.threshold > 0)  // the caller's first guess
    setLadder(control, control.threshold / 2, control.threshold * 2);
  window.exact = 0;
  window.limit = control.k == 0 ? 0 : window.room;
  window.key = lowest(control) > 0 ? std::max<uint64_t>(keyOf(control, lowest(control)), 1) : infinityKey(isDouble);
  window.least = 0;
  for (uint32_t j = 0; j < kRungs; ++j) control.rungs[j] = j == 0 ? window.key : keyOf(control, rung(control, j));
}

void noteThreshold(Control& control) {
  if (control.k == 0) return;
  if (control.windows[0].exact != 0) return startLadder(control);
  double& spread = control.gain;
  spread *= kForget;
  if (bracketHigh(control) == 0 && last(control) > 0)
    spread = std::max(spread, std::abs(control.threshold / last(control) - 1));
  spread = std::clamp(spread, kLeastSpread, kMostSpread);
  bracketHigh(control) = 0;
  last(control) = control.threshold;
  setLadder(control, (1 - kBelow * spread) * control.threshold, (1 + kAbove * spread) * control.threshold);
}

void startFaithful(Control& control) {
  Window& window = control.windows[0];
  window.key = keyOf(control, control.threshold);
  window.limit = control.k == 0 ? 0 : window.room;
  const bool force = control.k != 0 && window.end > window.begin;
  window.forced = force ? window.begin + control.iteration % (window.end - window.begin) : kNoForcedIndex;
}

void moveFaithful(Control& control) {
  if (control.k == 0) return;
  const double x = static_cast<double>(control.delivered) / static_cast<double>(control.k);
  if (x > 1.1)
    control.threshold *= 1.005;
  else if (x > 0.909)
    control.threshold *= 1.00125;
  else
    control.threshold *= 0.995;
}

constinit const Rule kReadLadder = ruleOf<readLadder>("shared-read");
constinit const Rule kTellShare = ruleOf<tellShare>("shared-tell");

void planSharedThreshold(const SelectionRequest& request, double roomShare, uint64_t longest, SelectionPlan& plan) {
  const Wanted wanted = wantedOf(request);
  plan.k = wanted.now;
  plan.mostEntries = wanted.most;
  WindowPlan window;
  window.exact = false;
  if (request.faithful) {
    plan.threshold = firstThreshold(request.threshold, wanted.now);
    plan.capacity = longest;
    window.slots = longest;
  } else {
    const double room = std::ceil(roomShare * static_cast<double>(wanted.most) / static_cast<double>(request.ranks));
    plan.threshold = request.threshold;
    plan.capacity = std::min(longest, static_cast<uint64_t>(room));
    window.slots = std::min(longest, 2 * plan.capacity + 256);
    plan.surveyLength = kLadderRow;
    plan.survey = SurveyKind::kLadder;
    plan.afterSurvey = &kReadLadder;
    plan.afterCut = &kTellShare;
  }
  window.room = plan.capacity;
  plan.windows.push_back(window);
}

}  // namespace sparsecoll
