// DGC's selection (Lin, Han, Mao, Wang and Dally, ICLR 2018, "Deep Gradient Compression"): the threshold is the
// quantile of a sample; where far more than k entries exceed it, the exact top k among them is taken.
//
// Faithful: as the authors' program has it, for every tensor by itself. The sample has every so many entries, max(1 %,
// 2 / density) of them. While fewer than 0.8 k entries reach the threshold it is multiplied by 0.8, up to ten times. At
// most k travel: the largest where more than 1.3 k reach it, else the first by index. Default: the quantile of a sample
// of the whole vector and a closed loop on what was found; far more is 4 k / 3.
#include <algorithm>

#include "selectors/closed_loop.h"
#include "selectors/rules.h"
#include "selectors/selectors.h"

namespace sparsecoll {

namespace {

constexpr uint64_t kSpare = 16384;  // slots for the sample that a cut without candidates takes (host/cut.cpp)
constexpr uint64_t kSpareOfTensor = 256;

// No candidates but NaN and Inf: the cut reads acc.
WindowPlan tensorWindow(const SelectionRequest& request, uint64_t begin, uint64_t length, uint64_t room) {
  WindowPlan window;
  window.begin = begin;
  window.end = begin + length;
  window.room = room;
  window.slots = std::min(length, room + (request.segments.empty() ? kSpare : kSpareOfTensor));
  window.key = infinityKey(request.accumulateType == sparsecollFloat64);
  return window;
}

// The program takes one density of every tensor, so k is that of the whole vector, whatever of it is sent dense. A
// tensor that is sent dense has a window, too, which keeps nothing: the others draw by their numbers.
Result<SelectionPlan> planAsPublished(const SelectionRequest& request) {
  const Wanted wanted = wantedOf(request, request.n);
  const double share = static_cast<double>(wanted.most) / static_cast<double>(request.n);
  SelectionPlan plan;
  plan.k = wanted.now;
  plan.mostEntries = wanted.most;
  plan.fromAcc = &kSampledFaithful;
  plan.picks = &kSampledFirst;
  uint64_t begin = 0;
  const auto add = [&](uint64_t length, bool dense) {
    const uint64_t sent = dense ? 0 : tensorShare(length, share);
    const uint64_t room = std::min(length, mostBeforeTop(sent));
    plan.windows.push_back(tensorWindow(request, begin, length, room));
    plan.capacity += sent;
    plan.kept += room;
    begin += length;
  };
  for (const sparsecollSegment_t& segment : request.segments) add(segment.length, segment.dense != 0);
  if (request.segments.empty()) add(request.n, false);
  plan.kept = std::max<uint64_t>(plan.kept, 1);  // the rule takes from a list, whatever is in it
  return plan;
}

Result<SelectionPlan> planSampled(const SelectionRequest& request) {
  if (request.faithful()) return planAsPublished(request);
  SelectionPlan plan = planSampledThreshold(request, kSampledDefault);
  plan.afterPass = &kSelectAgain;
  plan.capacity = std::min(request.n, mostSampled(plan.mostEntries));
  WindowPlan& window = plan.windows[0];
  window.limit = request.selectNothing ? 0 : plan.capacity;
  window.room = plan.capacity;
  window.slots = std::min(request.n, 3 * plan.capacity + 16384);
  return plan;
}

constexpr const char* kPaper = "Lin et al. 2018 (DGC), arXiv:1712.01887";

constexpr PresetRow kPresets[] = {
    {.name = "dgc",
     .summary = "threshold from a sample's quantile, momentum in front of the residual",
     .paper = kPaper,
     .selector = sparsecollSelectSampled,
     .collective = sparsecollCollAllGather,
     .momentum = 0.9},
};

}  // namespace

constinit extern const SelectorRow kSampledRow = {
    .id = sparsecollSelectSampled,
    .name = "sampled",
    .paper = kPaper,
    .plan = planSampled,
    .collective = sparsecollCollAllGather,
    .bound = {1, 16},
    .faithfulBound = {5, 24},
    .presets = kPresets,
};

}  // namespace sparsecoll
