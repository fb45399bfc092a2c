#include <algorithm>

#include "core/partition.h"
#include "selectors/ladder.h"
#include "selectors/rules.h"

namespace sparsecoll {

namespace {

// The entries above a threshold fall between two trials by about the same factor on equal parts of the way.
SC_BOTH double readThreshold(Control& control, const double* above, double k) {
  uint32_t j = 0;
  while (j + 2 < kTrials && above[j + 1] >= k) ++j;
  const double high = lnOf(above[j]);
  const double low = lnOf(std::max(above[j + 1], 0.5));
  const double part = high > low ? clamped((high - lnOf(k)) / (high - low), 0.0, 1.0) : 0;
  return ladder::trial(control, j) * powOf(ladder::of(control).factor, part);
}

// Without a common threshold each rank takes its partition's share. Where there are too few entries for all partitions
// the shares are the ranks', between which partitions go round, so that each has its turn.
SC_BOTH void takeShare(Control& control) {
  Window& window = control.windows[0];
  const uint64_t part = (control.iteration % control.ranks + control.rank) % control.ranks;
  const bool forAll = control.k >= std::min<uint64_t>(control.ranks, control.n);
  window.exact = 1;
  window.limit = std::min(evenPart(control.k, control.ranks, forAll ? part : control.rank).length(), window.room);
  control.threshold = 0;
}

// above: entries at the trials, of all ranks that could count them, then how many could not.
SC_BOTH void takeThreshold(Control& control, const double* above) {
  const double incomplete = above[kTrials];
  const auto k = static_cast<double>(control.k);
  if (!(ladder::of(control).lowest > 0 && incomplete == 0 && above[0] >= k && above[kTrials - 1] <= k)) {
    ladder::of(control).side = above[kTrials - 1] > k ? ladder::kAboveLadder
                               : incomplete == 0      ? ladder::kBelowLadder
                                                      : ladder::kAboveLowest;
    return takeShare(control);
  }
  control.threshold = readThreshold(control, above, k);
  control.windows[0].least = ladder::keyOf(control, control.threshold);
}

SC_BOTH void readLadder(Control& control, const Crew& crew) {
  if (control.k == 0) return;
  double* const above = crew.memory().numbers;
  const double* const counts = ladder::of(control).counts;
  static_assert(kLadderRow <= kCrewTable);
  crew.each(kLadderRow, [&](uint64_t j) {
    double sum = 0;
    for (uint64_t r = 0; r < control.ranks; ++r) sum += counts[r * kLadderRow + j];
    above[j] = sum;
  });
  crew.alone([&] { takeThreshold(control, above); });
}

SC_BOTH void tellShare(Control& control) {
  const Window& window = control.windows[0];
  control.announced = control.threshold;
  if (window.exact == 0 || window.kept == 0) return;
  const double local = thresholdOfKey(window.keptKey, control.isDouble != 0);
  control.announced = isFinite(local) ? local : 0;
}

}  // namespace

constinit const Rule kReadLadder = ruleOf<readLadder>("shared-read");
constinit const Rule kTellShare = ruleOf<tellShare>("shared-tell");

}  // namespace sparsecoll
