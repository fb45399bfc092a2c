#include "selectors/closed_loop.h"

#include <algorithm>
#include <cmath>

#include "core/numeric.h"

namespace sparsecoll {

namespace {

constexpr uint64_t kRoom = 2;
constexpr uint64_t kRoomFaithful = 32;
constexpr double kLeastCorrection = 1.0 / 64;
constexpr double kMostCorrection = 64;

// The correction lives in the last of the kept numbers; 0 is none yet.
double correctionOf(const Control& control) { return control.kept[3] == 0 ? 1 : control.kept[3]; }

// The last step found nothing (control.side, which these methods have no other use for).
bool foundNone(const Control& control) { return control.side != 0; }

// Entries of one magnitude all lie at one place of a bin of the histogram, and a threshold from inside the bin, or from
// its upper end, may exceed them for ever.
uint64_t lowerEndOfBin(uint64_t key, bool isDouble) {
  const uint32_t bits = isDouble ? 47 : 18;  // of a key inside a bin
  return key > 1 ? std::max<uint64_t>((key - 1) >> bits << bits, 1) : key;
}

void correctShare(Control& control) {
  control.side = control.k != 0 && control.windows[0].found == 0 ? 1 : 0;
  if (control.k == 0) return;
  const Window& window = control.windows[0];
  const auto wanted = static_cast<double>(control.k);
  const auto found = static_cast<double>(std::max<uint64_t>(std::max(window.kept, window.found), 1));
  const double factor = std::sqrt(std::clamp(wanted / found, 0.5, 2.0));
  control.kept[3] = std::clamp(correctionOf(control) * factor, kLeastCorrection, kMostCorrection);
}

constexpr Rule kCorrectShare = ruleOf<correctShare>("correct-share");

}  // namespace

SelectionPlan planSampledThreshold(const SelectionRequest& request, const Rule& published, const Rule& corrected) {
  const Wanted wanted = wantedOf(request);
  SelectionPlan plan;
  plan.k = wanted.now;
  plan.mostEntries = wanted.most;
  plan.capacity = std::min(request.n, (request.faithful ? kRoomFaithful : kRoom) * wanted.most);
  plan.samples = true;
  plan.afterSample = request.faithful ? &published : &corrected;
  if (!request.faithful) plan.afterCut = &kCorrectShare;
  WindowPlan window;
  window.end = request.n;
  window.limit = request.selectNothing ? 0 : plan.capacity;
  window.room = plan.capacity;
  window.slots = std::min(request.n, plan.capacity + 256);
  window.key = infinityKey(request.accumulateType == sparsecollFloat64);
  window.exact = false;
  plan.windows.push_back(window);
  return plan;
}

void setThreshold(Control& control, double threshold) {
  const bool isDouble = control.isDouble != 0;
  const bool usable = threshold > 0 && isFinite(threshold) && control.k != 0;
  uint64_t key = usable ? keyOfThreshold(threshold, isDouble) : infinityKey(isDouble);
  if (usable && foundNone(control)) {
    key = lowerEndOfBin(key, isDouble);
    threshold = thresholdOfKey(key, isDouble);
  }
  control.threshold = usable ? threshold : 0;
  control.windows[0].key = key;
}

double shareWanted(const Control& control) { return static_cast<double>(control.k) / static_cast<double>(control.n); }

double requestedShare(const Control& control) {
  const double share = shareWanted(control);
  return std::min(share * correctionOf(control), 0.5 * (1 + share));
}

}  // namespace sparsecoll
