// GaussianK (Shi, Chu, Cheung and See 2019, "Understanding top-k sparsification in distributed deep learning"): the
// magnitudes are taken for those of a normal variable of the same second moment, whose quantile is the threshold; then
// up to 20 trials move it by 2 % while it keeps less than 3 k / 4 or more than 5 k / 4. Trials are counted in the
// histogram of a sample and cost no pass. Default: as many trials as it takes to come within 1 % of k, each turn
// halving the step, and a closed loop on what was found.
#include <algorithm>
#include <cmath>

#include "core/math.h"
#include "selectors/closed_loop.h"
#include "selectors/selectors.h"

namespace sparsecoll {

namespace {

struct Trials {
  int most;
  double band;     // of the wanted count, within which a threshold is taken
  double turning;  // factor of the step at every turn
};
constexpr Trials kPublished = {20, 0.25, 1};
constexpr Trials kCareful = {400, 0.01, 0.5};
constexpr double kStep = 0.02;

double normalThreshold(const Magnitudes& sample, double share) {
  const Magnitudes::Moments all = sample.excess(0);
  return normalQuantile(0.5 * std::min(share, 1.0)) * std::sqrt(all.variance + all.mean * all.mean);
}

double tried(const Magnitudes& sample, double threshold, double share, const Trials& trials) {
  const double wanted = share * sample.total();
  double step = kStep;
  bool rising = false;
  for (int trial = 0; trial < trials.most; ++trial) {
    const double kept = sample.above(threshold);
    if (kept >= (1 - trials.band) * wanted && kept <= (1 + trials.band) * wanted) break;
    const bool rises = kept > wanted;
    if (trial > 0 && rises != rising) step *= trials.turning;
    rising = rises;
    threshold = rises ? threshold * (1 + step) : threshold / (1 + step);
  }
  return threshold;
}

void fit(Control& control, double share, const Trials& trials) {
  const Magnitudes sample(control);
  setThreshold(control, tried(sample, normalThreshold(sample, share), share, trials));
}

void fitFaithful(Control& control) { fit(control, shareWanted(control), kPublished); }
void fitDefault(Control& control) { fit(control, requestedShare(control), kCareful); }

constexpr Rule kFitFaithful = ruleOf<fitFaithful>("gaussian-faithful");
constexpr Rule kFitDefault = ruleOf<fitDefault>("gaussian");

}  // namespace

Result<SelectionPlan> planGaussian(const SelectionRequest& request) {
  return planSampledThreshold(request, kFitFaithful, kFitDefault);
}

}  // namespace sparsecoll
