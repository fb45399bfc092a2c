// MiCRO (Yoon and Oh, HiPC 2023): rank r selects only in partition (t + r) mod P, by one threshold that all ranks share
// and move together by comparing the entries K that travelled with the k that were wanted.
//
// Faithful: first threshold 1 / (2 sqrt(k)); afterwards times 1.005 above k / 0.909, times 1.00125 inside the band (the
// published code never takes its other branch there), times 0.995 below; an empty selection sends one forced index.
// Default: the first step selects exactly k / P in each partition and takes the mean of the ranks' smallest magnitudes
// as the threshold. Afterwards it moves by x^gain, x = K / k, in the [1/1] Pade form
// ((1+g)x + (1-g)) / ((1-g)x + (1+g)), which needs no libm and is bounded by (1+g)/(1-g). Error feedback integrates
// what a threshold holds back, so a fixed gain that is fast after a jump rings later: the gain grows while K stays on
// one side of k and halves whenever it crosses. There is no dead band, hence no bias.
#include <algorithm>
#include <cmath>

#include "selectors/selectors.h"

namespace sparsecoll {

namespace {

constexpr double kFirstGain =
    1.0 / 8;  // tails of gradients lose about x^8 of their entries per factor x of the threshold
constexpr double kLeastGain = 1.0 / 64;
constexpr double kMostGain = 1.0 / 4;
constexpr double kGainGrows = 1.2;
constexpr double kGainShrinks = 0.5;
constexpr double kRoom = 2.5;  // messages hold this many times k / P

struct Part {
  uint64_t begin, end;
};

// The first n mod P partitions are one longer.
Part partOf(uint64_t n, uint64_t ranks, uint64_t part) {
  const uint64_t length = n / ranks;
  const uint64_t longer = n % ranks;
  const uint64_t begin = part * length + std::min(part, longer);
  return {begin, begin + length + (part < longer ? 1 : 0)};
}

Part turn(Control& control, Window& window) {
  const uint64_t ranks = control.ranks;
  const Part part = partOf(control.n, ranks, (control.iteration % ranks + control.rank) % ranks);
  window.begin = part.begin;
  window.end = part.end;
  return part;
}

uint64_t keyOf(const Control& control) { return keyOfThreshold(control.threshold, control.isDouble != 0); }

void beforeDefault(Control& control) {
  Window& window = control.windows[0];
  turn(control, window);
  const bool searching = control.threshold == 0;
  const uint64_t share = (control.k + control.ranks - 1) / control.ranks;
  window.exact = searching ? 1 : 0;
  window.limit = control.k == 0 ? 0 : searching ? std::min(share, window.room) : window.room;
  window.key = searching ? infinityKey(control.isDouble != 0) : keyOf(control);
}

// While searching, the header tells the peers this partition's smallest magnitude sent.
void tellLocalThreshold(Control& control) {
  const Window& window = control.windows[0];
  control.told = control.threshold;
  if (window.exact == 0 || window.kept == 0) return;
  const double local = thresholdOfKey(window.keptKey, control.isDouble != 0);
  control.told = std::isfinite(local) ? local : 0;
}

void moveDefault(Control& control) {
  if (control.windows[0].exact != 0) {
    double sum = 0;
    double told = 0;
    for (uint32_t r = 0; r < control.ranks; ++r)
      if (control.facts[r].threshold > 0) {
        sum += control.facts[r].threshold;
        told += 1;
      }
    control.threshold = told > 0 ? sum / told : 0;
    return;
  }
  if (control.k == 0) return;
  const double x = static_cast<double>(control.delivered) / static_cast<double>(control.k);
  const double side = x > 1 ? 1 : -1;
  if (control.side == 0)
    control.gain = kFirstGain;
  else
    control.gain *= side == control.side ? kGainGrows : kGainShrinks;
  control.gain = std::clamp(control.gain, kLeastGain, kMostGain);
  control.side = side;
  const double g = control.gain;
  control.threshold *= ((1 + g) * x + (1 - g)) / ((1 - g) * x + (1 + g));
}

void beforeFaithful(Control& control) {
  Window& window = control.windows[0];
  const Part part = turn(control, window);
  window.key = keyOf(control);
  window.limit = control.k == 0 ? 0 : window.room;
  const bool force = control.k != 0 && part.end > part.begin;
  window.forced = force ? part.begin + control.iteration % (part.end - part.begin) : kNoForcedIndex;
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

constexpr Rule kBefore = {"micro-before", beforeDefault};
constexpr Rule kTell = {"micro-tell", tellLocalThreshold};
constexpr Rule kMove = {"micro-move", moveDefault};
constexpr Rule kBeforeFaithful = {"micro-faithful-before", beforeFaithful};
constexpr Rule kMoveFaithful = {"micro-faithful-move", moveFaithful};

}  // namespace

Result<SelectionPlan> planMicro(const SelectionRequest& request) {
  const Wanted wanted = wantedOf(request);
  const auto ranks = static_cast<uint64_t>(request.ranks);
  const uint64_t longest = (request.n + ranks - 1) / ranks;
  SelectionPlan plan;
  plan.k = wanted.now;
  plan.mostEntries = wanted.most;
  WindowPlan window;
  window.exact = false;
  if (request.faithful) {
    plan.threshold = firstThreshold(request.threshold, wanted.now);
    plan.capacity = longest;
    window.slots = longest;
    plan.before = &kBeforeFaithful;
    plan.afterExchange = &kMoveFaithful;
  } else {
    const double room = std::ceil(kRoom * static_cast<double>(wanted.most) / static_cast<double>(ranks));
    plan.threshold = request.threshold;
    plan.capacity = std::min(longest, static_cast<uint64_t>(room));
    window.slots = std::min(longest, 2 * plan.capacity + 256);
    plan.before = &kBefore;
    plan.afterCut = &kTell;
    plan.afterExchange = &kMove;
  }
  window.room = plan.capacity;
  plan.windows.push_back(window);
  return plan;
}

}  // namespace sparsecoll
