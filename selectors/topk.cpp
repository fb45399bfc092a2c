// Exact top-k in one streaming pass. The last step's k-th magnitude, lowered by a margin, guards the pass: what reaches it
// becomes a candidate, and the exact cut runs on the candidates. The guard changes the cost of a step, never its result.
#include <algorithm>

#include "selectors/selectors.h"

namespace sparsecoll {

namespace {

constexpr double kFirstMargin = 0.93;
constexpr double kLeastMargin = 0.5;
constexpr double kMostMargin = 0.98;

// Few candidates make the cut cheap, too few make the next step read the vector twice: aim between 1.15 and 1.6 times k.
double nextMargin(const Window& window) {
  const auto found = static_cast<double>(window.found);
  const auto kept = static_cast<double>(window.kept);
  double margin = window.margin;
  if (found < kept)
    margin -= 0.04;
  else if (found < 1.15 * kept)
    margin -= 0.005;
  else if (found > 1.6 * kept)
    margin += 0.005;
  return std::clamp(margin, kLeastMargin, kMostMargin);
}

void moveGuards(Control& control) {
  const bool isDouble = control.isDouble != 0;
  const uint64_t infinity = isDouble ? Magnitude<double>::kInfinity : Magnitude<float>::kInfinity;
  for (uint32_t w = 0; w < control.windowCount; ++w) {
    Window& window = control.windows[w];
    if (window.limit >= window.end - window.begin) {
      window.key = 0;
      continue;
    }
    if (window.kept == 0) {
      window.key = infinity;
      continue;
    }
    // The margin learns from steps that had a guard; the first one had none.
    if (window.key != infinity) window.margin = nextMargin(window);
    const uint64_t kept = std::min(window.keptKey, infinity - 1);
    const uint64_t guard = keyOfThreshold(window.margin * thresholdOfKey(kept, isDouble), isDouble);
    window.key = std::max<uint64_t>(guard, 1);  // 0 would make every zero a candidate
  }
}

void tellThreshold(Control& control) {
  const Window& last = control.windows[control.windowCount - 1];
  control.threshold = thresholdOfKey(last.keptKey, control.isDouble != 0);
}

void afterCut(Control& control) {
  tellThreshold(control);
  moveGuards(control);
}

constexpr Rule kAfterCut = {"topk", afterCut};

uint64_t slotsFor(uint64_t limit, uint64_t length) { return std::min(length, 3 * limit + 256); }

WindowPlan windowFor(uint64_t begin, uint64_t end, uint64_t limit, uint64_t mostLimit, uint64_t infinity) {
  WindowPlan window;
  window.begin = begin;
  window.end = end;
  window.limit = limit;
  window.room = mostLimit;
  window.slots = slotsFor(mostLimit, end - begin);
  window.key = limit >= end - begin ? 0 : infinity;
  window.margin = kFirstMargin;
  return window;
}

// Every segment is a unit of its own as soon as one of them has a rule.
bool hasRules(std::span<const sparsecollSegment_t> segments) {
  return std::any_of(segments.begin(), segments.end(),
                     [](const sparsecollSegment_t& s) { return s.dense != 0 || s.density != 0; });
}

}  // namespace

Result<SelectionPlan> planTopK(const SelectionRequest& request) {
  const uint64_t infinity =
      request.accumulateType == sparsecollFloat64 ? Magnitude<double>::kInfinity : Magnitude<float>::kInfinity;
  SelectionPlan plan;
  plan.afterCut = &kAfterCut;
  if (!hasRules(request.segments)) {
    const Wanted wanted = wantedOf(request);
    plan.windows.push_back(windowFor(0, request.n, wanted.now, wanted.most, infinity));
    plan.k = wanted.now;
    plan.capacity = wanted.most;
    return plan;
  }
  const double whole = static_cast<double>(request.n);
  const double density = request.k != 0 ? static_cast<double>(request.k) / whole : request.density;
  uint64_t begin = 0;
  for (const sparsecollSegment_t& segment : request.segments) {
    const double now = segment.dense != 0 ? 1 : segment.density != 0 ? segment.density : density;
    const double most = segment.dense != 0 || segment.density != 0 ? now : std::max(now, request.maxDensity);
    const uint64_t limit = request.selectNothing ? 0 : entriesOf(now, segment.length);
    const uint64_t mostLimit = entriesOf(most, segment.length);
    plan.windows.push_back(windowFor(begin, begin + segment.length, limit, mostLimit, infinity));
    plan.k += limit;
    plan.capacity += mostLimit;
    begin += segment.length;
  }
  return plan;
}

}  // namespace sparsecoll
