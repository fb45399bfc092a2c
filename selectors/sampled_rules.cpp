#include <algorithm>
#include <cmath>

#include "core/list_span.h"
#include "core/numeric.h"
#include "core/random.h"
#include "selectors/draws.h"
#include "selectors/kth_largest.h"
#include "selectors/rules.h"
#include "selectors/sampled_threshold.h"
#include "selectors/sweeps.h"

namespace sparsecoll {

namespace {

constexpr double kSampledShare = 0.01;
constexpr double kLower = 0.8;
constexpr int kMostTrials = 10;

SC_BOTH void takeQuantile(Control& control, const Crew& crew) {
  const Magnitudes sample(control, crew);
  const double threshold = sample.quantile(requestedShare(control) * sample.total());
  crew.alone([&] { setThreshold(control, reachable(threshold)); });
}

// How a tensor is sampled: every stride-th entry, so that there are at least as many as max(1 %, 2 / share).
SC_BOTH uint64_t strideFor(uint64_t length, double share) {
  const auto least = static_cast<uint64_t>(std::ceil(2 / share));
  if (length <= least) return 1;
  const uint64_t wanted =
      std::max(static_cast<uint64_t>(std::ceil(static_cast<double>(length) * kSampledShare)), least);
  const double runs = static_cast<double>(length) / static_cast<double>(wanted) / 32;
  uint64_t stride = static_cast<uint64_t>(std::ceil(runs)) * 32 + 1;
  while (stride > 8 && length / stride < wanted) stride -= 8;
  return stride;
}

// Past the last trial, too, more than 1.3 k are cut to the largest k.
template <class A>
SC_BOTH uint64_t countAsPublished(const A* acc, const Window& window, uint64_t start, double share, const Crew& crew) {
  const uint64_t length = window.end - window.begin;
  const uint64_t entries = tensorShare(length, share);
  const uint64_t stride = strideFor(length, share);
  const uint64_t top = std::max<uint64_t>(tensorShare(length / stride, share), 1);
  const Sweeps<A> tensor(acc, window.begin, window.end, crew);
  auto threshold = static_cast<A>(kthLargest(acc, window.begin + start % stride, window.end, stride, top, crew));
  const auto count = [&] { return tensor.reaching(reachable(static_cast<double>(threshold))); };
  uint64_t found = count();
  for (int trial = 0; stride != 1 && trial < kMostTrials; ++trial) {
    if (static_cast<double>(found) >= kLower * static_cast<double>(entries)) break;
    threshold *= static_cast<A>(kLower);
    found = count();
  }
  return found > mostBeforeTop(entries) ? entries : found;
}

template <class A>
SC_BOTH void countTensors(Control& control, const A* acc, const Crew& crew) {
  const double share = shareWanted(control);
  for (uint32_t w = 0; w < control.windowCount; ++w) {
    Window& window = control.windows[w];
    if (window.room == 0) continue;  // sent dense
    const uint64_t start = control.k != 0 ? mixBits(drawSeed(control) + w) : 0;
    const uint64_t count = control.k != 0 ? countAsPublished(acc, window, start, share, crew) : 0;
    crew.alone([&] { window.limit = std::min(count, window.room); });
  }
}

SC_BOTH void sampleTensors(const ListRuleArgs& args, const Crew& crew) {
  if (args.control->isDouble != 0)
    countTensors(*args.control, static_cast<const double*>(args.acc), crew);
  else
    countTensors(*args.control, static_cast<const float*>(args.acc), crew);
}

// The first of what the cut kept in each window.
template <class A>
SC_BOTH void takeFirst(const ListRuleArgs& args, const Share& share) {
  Control& control = *args.control;
  const double part = shareWanted(control);
  const auto quota = [&](const Window& window) {
    return std::min(window.kept, tensorShare(window.end - window.begin, part));
  };
  uint64_t total = 0;
  for (uint32_t w = 0; w < control.windowCount; ++w) total += quota(control.windows[w]);
  if (share.first == 0) {
    control.selected = static_cast<uint32_t>(total);
    *args.to.count = control.selected;
  }
  const ListSpan<A> list = spanOf<A>(args.from);
  const ListSlots<A> to = slotsOf<A>(args.to, total);
  uint64_t from = 0;
  uint64_t at = 0;
  for (uint32_t w = 0; w < control.windowCount; ++w) {
    const uint64_t entries = quota(control.windows[w]);
    for (uint64_t i = share.first; i < entries; i += share.step) {
      to.indices[at + i] = list.indices[from + i];
      to.values[at + i] = list.values[from + i];
    }
    from += control.windows[w].kept;
    at += entries;
  }
}

SC_BOTH void first(const ListRuleArgs& args, const Share& share) {
  args.control->isDouble != 0 ? takeFirst<double>(args, share) : takeFirst<float>(args, share);
}

// Not an overflow: that is what the method does with a threshold that is too low.
SC_BOTH void selectAgain(Control& control) {
  Window& window = control.windows[0];
  const bool tooMany = window.found > mostSampled(control.k);
  window.limit = tooMany ? control.k : mostSampled(control.k);
  window.exact = tooMany ? 1 : 0;
}

}  // namespace

constinit const ListRule kSampledFaithful = crewListRuleOf<sampleTensors>("sampled-faithful");
constinit const ListRule kSampledFirst = listRuleOf<first>("sampled-first");
constinit const Rule kSampledDefault = ruleOf<takeQuantile>("sampled");
constinit const Rule kSelectAgain = ruleOf<selectAgain>("select-again");

}  // namespace sparsecoll
