// DGC's selection (Lin, Han, Mao, Wang and Dally, ICLR 2018, "Deep Gradient Compression"): the threshold is the
// quantile of a sample; where far more than k entries exceed it, the exact top k among them is taken. Far more is 4 k /
// 3, as in the code published with SIDCo.
//
// Faithful: the sample has 1 % of the entries, drawn at random from the histogram of a sample, t = ceil(share of it)
// gives the t-th largest, and entries above that travel. Default: the quantile of the whole sample, the threshold
// itself included, and a closed loop on what was found.
#include <algorithm>
#include <cmath>

#include "core/numeric.h"
#include "core/random.h"
#include "selectors/closed_loop.h"
#include "selectors/selectors.h"

namespace sparsecoll {

namespace {

constexpr double kSampledShare = 0.01;
constexpr double kLeast = 5e-324;  // every entry but 0 reaches it: fewer of them than k are all sent

uint64_t mostOf(uint64_t k) { return k + k / 3; }

void takeQuantile(Control& control) {
  const Magnitudes sample(control);
  const double threshold = sample.quantile(requestedShare(control) * sample.total());
  setThreshold(control, std::max(threshold, kLeast));
}

void takeQuantileFaithful(Control& control) {
  const Magnitudes sample(control);
  const double draws = std::ceil(kSampledShare * static_cast<double>(control.n));
  const uint64_t seed = mixBits(control.iteration * control.ranks + control.rank);
  const double threshold =
      sample.quantileOfDraws(static_cast<uint64_t>(draws), std::ceil(draws * shareWanted(control)), seed);
  setThreshold(control, std::max(threshold, kLeast));
  Window& window = control.windows[0];
  const bool isDouble = control.isDouble != 0;
  if (window.key < infinityKey(isDouble) && thresholdOfKey(window.key, isDouble) == control.threshold) ++window.key;
}

// Not an overflow: that is what the method does with a threshold that is too low.
void selectAgain(Control& control) {
  Window& window = control.windows[0];
  const bool tooMany = window.found > mostOf(control.k);
  window.limit = tooMany ? control.k : mostOf(control.k);
  window.exact = tooMany ? 1 : 0;
}

constexpr Rule kTakeFaithful = ruleOf<takeQuantileFaithful>("sampled-faithful");
constexpr Rule kTake = ruleOf<takeQuantile>("sampled");
constexpr Rule kSelectAgain = ruleOf<selectAgain>("select-again");

}  // namespace

Result<SelectionPlan> planSampled(const SelectionRequest& request) {
  SelectionPlan plan = planSampledThreshold(request, kTakeFaithful, kTake);
  plan.afterPass = &kSelectAgain;
  plan.capacity = std::min(request.n, mostOf(plan.mostEntries));
  WindowPlan& window = plan.windows[0];
  window.limit = request.selectNothing ? 0 : plan.capacity;
  window.room = plan.capacity;
  window.slots = std::min(request.n, 3 * plan.capacity + 16384);
  return plan;
}

}  // namespace sparsecoll
