#include "collectives/ok_topk.h"

#include <algorithm>

#include "collectives/rules.h"
#include "core/list_span.h"
#include "core/numeric.h"
#include "core/partition.h"

namespace sparsecoll {

namespace {

constexpr uint64_t kSumPeriod = 32;
constexpr uint64_t kRegionPeriod = 64;
constexpr double kMostImbalance = 4;
constexpr double kSumGain = 1.0 / 8;
constexpr double kBand = 0.25;  // past it the next step looks for the threshold anew

SC_BOTH OkTopkState& okTopkState(Control& control) { return control.collective.as<OkTopkState>(); }

SC_BOTH void begin(Control& control) {
  OkTopkState& state = okTopkState(control);
  if (state.regions[control.ranks] == 0)
    for (uint32_t r = 0; r <= control.ranks; ++r)
      state.regions[r] = r < control.ranks ? evenPart(control.n, control.ranks, r).begin : control.n;
  if (control.iteration % kSumPeriod == 0) state.sumDue = 1;
  state.sumKey = state.sumDue != 0 ? 0 : keyOfThreshold(state.sumThreshold, control.isDouble != 0);
  state.sumLimit = state.sumDue != 0 ? control.k : control.n;
  state.sumKept = 0;
}

SC_BOTH void judgeRegions(Control& control) {
  OkTopkState& state = okTopkState(control);
  const double mean = static_cast<double>(control.delivered) / control.ranks;
  const bool uneven = mean > 0 && control.largest > kMostImbalance * mean;
  state.regionsDue = control.iteration % kRegionPeriod == 0 || uneven ? 1 : 0;
}

// After a step that gathered everything.
SC_BOTH bool takeThreshold(Control& control) {
  OkTopkState& state = okTopkState(control);
  if (state.sumDue == 0) return false;
  const bool isDouble = control.isDouble != 0;
  if (state.sumKept >= infinityKey(isDouble)) return true;  // no number: the next step looks again
  state.sumThreshold = thresholdOfKey(state.sumKept, isDouble);
  state.sumDue = 0;
  return true;
}

SC_BOTH void end(Control& control) {
  judgeRegions(control);
  if (takeThreshold(control) || control.k == 0) return;
  OkTopkState& state = okTopkState(control);
  const double x = static_cast<double>(control.delivered) / static_cast<double>(control.k);
  if (x < 1 - kBand || x > 1 + kBand) state.sumDue = 1;
  state.sumThreshold *= ((1 + kSumGain) * x + (1 - kSumGain)) / ((1 - kSumGain) * x + (1 + kSumGain));
}

SC_BOTH void endFaithful(Control& control) {
  judgeRegions(control);
  if (takeThreshold(control)) return;
  OkTopkState& state = okTopkState(control);
  const double x = static_cast<double>(control.delivered) / static_cast<double>(std::max<uint64_t>(control.k, 1));
  if (x < 2.0 / 3) state.sumThreshold /= 1.008;
  if (x > 4.0 / 3) state.sumThreshold *= 1.008;
}

// Regions with equal shares of the sum's entries.
SC_BOTH void cutRegions(const ListRuleArgs& args, const Share& share) {
  const OkTopkState& state = okTopkState(*args.control);
  const ListSpan<float> sum = spanOf<float>(args.from);  // only indices are looked at, so any type will do
  if (state.regionsDue == 0 || sum.count == 0 || sum.indices == nullptr) return;
  const uint64_t ranks = args.control->ranks;
  for (uint64_t r = 1 + share.first; r < ranks; r += share.step)
    state.regions[r] = sum.indices[uint64_t{sum.count} * r / ranks];
}

}  // namespace

constinit const ListRule kOkTopkCutRegions = listRuleOf<cutRegions>("oktopk-regions");
constinit const Rule kOkTopkBegin = ruleOf<begin>("oktopk-begin");
constinit const Rule kOkTopkEnd = ruleOf<end>("oktopk-end");
constinit const Rule kOkTopkEndFaithful = ruleOf<endFaithful>("oktopk-faithful-end");

}  // namespace sparsecoll
