#include <algorithm>
#include <cmath>

#include "core/numeric.h"
#include "core/random.h"
#include "selectors/rules.h"
#include "selectors/sampled_threshold.h"

namespace sparsecoll {

namespace {

constexpr double kSampledShare = 0.01;

SC_BOTH void takeQuantile(Control& control, const Crew& crew) {
  const Magnitudes sample(control, crew);
  const double threshold = sample.quantile(requestedShare(control) * sample.total());
  crew.alone([&] { setThreshold(control, largerOf(threshold, kLeastMagnitude)); });
}

// What is equal to the threshold stays.
SC_BOTH void selectAbove(Control& control, double threshold) {
  setThreshold(control, threshold);
  Window& window = control.windows[0];
  const bool isDouble = control.isDouble != 0;
  if (window.key < infinityKey(isDouble) && thresholdOfKey(window.key, isDouble) == control.threshold) ++window.key;
}

SC_BOTH void takeQuantileFaithful(Control& control, const Crew& crew) {
  const Magnitudes sample(control, crew);
  const double draws = std::ceil(kSampledShare * static_cast<double>(control.n));
  const uint64_t seed = mixBits(control.iteration * control.ranks + control.rank);
  const double threshold =
      sample.quantileOfDraws(static_cast<uint64_t>(draws), std::ceil(draws * shareWanted(control)), seed);
  crew.alone([&] { selectAbove(control, largerOf(threshold, kLeastMagnitude)); });
}

// Not an overflow: that is what the method does with a threshold that is too low.
SC_BOTH void selectAgain(Control& control) {
  Window& window = control.windows[0];
  const bool tooMany = window.found > mostSampled(control.k);
  window.limit = tooMany ? control.k : mostSampled(control.k);
  window.exact = tooMany ? 1 : 0;
}

}  // namespace

constinit const Rule kSampledFaithful = ruleOf<takeQuantileFaithful>("sampled-faithful");
constinit const Rule kSampledDefault = ruleOf<takeQuantile>("sampled");
constinit const Rule kSelectAgain = ruleOf<selectAgain>("select-again");

}  // namespace sparsecoll
