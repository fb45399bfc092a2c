// Exact top-k in one streaming pass. The last step's k-th magnitude, lowered a little, guards the pass: what reaches it
// becomes a candidate, and the exact cut runs on the candidates. The guard changes the cost of a step, never its
// result.
#include <algorithm>
#include <cmath>

#include "core/partition.h"
#include "selectors/selectors.h"

namespace sparsecoll {

namespace {

constexpr double kFirstSpread = 0.04;
constexpr double kLeastSpread = 0.002;
constexpr double kMostSpread = 0.3;
constexpr double kForget = 0.97;  // of the spread, a step
constexpr double kSafety = 1.5;

// A guard just below the next k-th magnitude leaves few candidates to cut; one above it makes the step read the vector
// again. So the guard stays as far below as that magnitude has lately moved between steps, and half as much more.
double nextSpread(const Window& window, double kept) {
  double spread = window.spread * (window.missed == kGuardTooLow ? 0.5 : kForget);
  if (window.keptBefore > 0 && kept > 0) spread = std::max(spread, std::abs(kept / window.keptBefore - 1));
  return std::clamp(spread, kLeastSpread, kMostSpread);
}

void moveGuards(Control& control) {
  const bool isDouble = control.isDouble != 0;
  const uint64_t infinity = infinityKey(isDouble);
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
    const double kept = thresholdOfKey(std::min(window.keptKey, infinity - 1), isDouble);
    window.spread = nextSpread(window, kept);
    window.keptBefore = kept;
    const uint64_t guard = keyOfThreshold((1 - kSafety * window.spread) * kept, isDouble);
    window.key = std::max<uint64_t>(guard, 1);  // 0 would make every zero a candidate
  }
}

void tellThreshold(Control& control) {
  const Window& last = control.windows[control.windowCount - 1];
  control.threshold = last.kept != 0 ? thresholdOfKey(last.keptKey, control.isDouble != 0) : 0;
}

void afterCut(Control& control) {
  tellThreshold(control);
  moveGuards(control);
}

constexpr Rule kAfterCut = {"topk", afterCut};

// Room for guards that are somewhat too low. One large unit also gets room for a useful sample (see host/cut.cpp).
uint64_t slotsFor(uint64_t limit, uint64_t length, bool alone) {
  return std::min(length, 3 * limit + (alone ? 16384 : 256));
}

WindowPlan windowFor(uint64_t begin, uint64_t end, uint64_t limit, uint64_t mostLimit, uint64_t infinity,
                     bool alone = false) {
  WindowPlan window;
  window.begin = begin;
  window.end = end;
  window.limit = limit;
  window.room = mostLimit;
  window.slots = slotsFor(mostLimit, end - begin, alone);
  window.key = limit >= end - begin ? 0 : infinity;
  window.spread = kFirstSpread;
  return window;
}

// Every segment is a unit of its own as soon as one of them has a rule.
bool hasRules(std::span<const sparsecollSegment_t> segments) {
  return std::any_of(segments.begin(), segments.end(),
                     [](const sparsecollSegment_t& s) { return s.dense != 0 || s.density != 0; });
}

}  // namespace

Result<SelectionPlan> planTopK(const SelectionRequest& request) {
  const uint64_t infinity = infinityKey(request.accumulateType == sparsecollFloat64);
  SelectionPlan plan;
  plan.afterCut = &kAfterCut;
  if (request.blocks != 0) {
    const double whole = static_cast<double>(request.n);
    const double now = request.k != 0 ? static_cast<double>(std::min(request.k, request.n)) / whole : request.density;
    for (uint32_t b = 0; b < request.blocks; ++b) {
      const Range block = blockOf(request.n, request.blocks, b);
      const uint64_t limit = request.selectNothing ? 0 : entriesOf(now, block.length());
      const uint64_t most = std::max(limit, entriesOf(request.maxDensity, block.length()));
      WindowPlan window = windowFor(block.begin, block.end, limit, most, infinity);
      window.slots = (3 + request.arrivals) * most + 256;
      plan.windows.push_back(window);
      plan.k += limit;
      plan.capacity += most;
    }
    plan.mostEntries = plan.capacity;
    return plan;
  }
  if (!hasRules(request.segments)) {
    const Wanted wanted = wantedOf(request);
    plan.windows.push_back(windowFor(0, request.n, wanted.now, wanted.most, infinity, true));
    plan.k = wanted.now;
    plan.capacity = plan.mostEntries = wanted.most;
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
  plan.mostEntries = plan.capacity;
  return plan;
}

}  // namespace sparsecoll
