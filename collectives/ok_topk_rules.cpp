#include <algorithm>

#include "collectives/rules.h"
#include "core/numeric.h"
#include "core/partition.h"

namespace sparsecoll {

namespace {

constexpr uint64_t kSumPeriod = 32;
constexpr uint64_t kRegionPeriod = 64;
constexpr double kMostImbalance = 4;
constexpr double kGain = 1.0 / 8;
constexpr double kBand = 0.25;  // past it the next step looks for the threshold anew

SC_BOTH void begin(Control& control) {
  if (control.regions[control.ranks] == 0)
    for (uint32_t r = 0; r <= control.ranks; ++r)
      control.regions[r] = r < control.ranks ? evenPart(control.n, control.ranks, r).begin : control.n;
  if (control.iteration % kSumPeriod == 0) control.sumDue = 1;
  control.sumKey = control.sumDue != 0 ? 0 : keyOfThreshold(control.sumThreshold, control.isDouble != 0);
  control.sumLimit = control.sumDue != 0 ? control.k : control.n;
  control.sumKept = 0;
}

SC_BOTH void judgeRegions(Control& control) {
  const double mean = static_cast<double>(control.delivered) / control.ranks;
  const bool uneven = mean > 0 && control.largest > kMostImbalance * mean;
  control.regionsDue = control.iteration % kRegionPeriod == 0 || uneven ? 1 : 0;
}

// After a step that gathered everything.
SC_BOTH bool takeThreshold(Control& control) {
  if (control.sumDue == 0) return false;
  const bool isDouble = control.isDouble != 0;
  if (control.sumKept >= infinityKey(isDouble)) return true;  // no number: the next step looks again
  control.sumThreshold = thresholdOfKey(control.sumKept, isDouble);
  control.sumDue = 0;
  return true;
}

SC_BOTH void end(Control& control) {
  judgeRegions(control);
  if (takeThreshold(control) || control.k == 0) return;
  const double x = static_cast<double>(control.delivered) / static_cast<double>(control.k);
  if (x < 1 - kBand || x > 1 + kBand) control.sumDue = 1;
  control.sumThreshold *= ((1 + kGain) * x + (1 - kGain)) / ((1 - kGain) * x + (1 + kGain));
}

SC_BOTH void endFaithful(Control& control) {
  judgeRegions(control);
  if (takeThreshold(control)) return;
  const double x = static_cast<double>(control.delivered) / static_cast<double>(std::max<uint64_t>(control.k, 1));
  if (x < 2.0 / 3) control.sumThreshold /= 1.008;
  if (x > 4.0 / 3) control.sumThreshold *= 1.008;
}

}  // namespace

constinit const Rule kOkTopkBegin = ruleOf<begin>("oktopk-begin");
constinit const Rule kOkTopkEnd = ruleOf<end>("oktopk-end");
constinit const Rule kOkTopkEndFaithful = ruleOf<endFaithful>("oktopk-faithful-end");

}  // namespace sparsecoll
