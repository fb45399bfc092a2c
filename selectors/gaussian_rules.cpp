#include <algorithm>
#include <cmath>

#include "selectors/rules.h"
#include "selectors/sampled_threshold.h"

namespace sparsecoll {

namespace {

struct Trials {
  int most;
  double band;     // of the wanted count, within which a threshold is taken
  double turning;  // factor of the step at every turn
};
constexpr Trials kOfOkTopk = {20, 0.25, 1};
constexpr Trials kCareful = {400, 0.01, 0.5};
constexpr double kStep = 0.02;

SC_BOTH double normalThreshold(const Magnitudes& sample, double share) {
  const Magnitudes::Moments all = sample.excess(0);
  return normalQuantile(0.5 * std::min(share, 1.0)) * std::sqrt(all.variance + all.mean * all.mean);
}

SC_BOTH double tried(const Magnitudes& sample, double threshold, double share, Trials trials) {
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

// Shi et al.: three trials, coarse ones. The last move is made after the last count, so nothing is selected with it.
SC_BOTH double triedOfShi(const Magnitudes& sample, double threshold, double share) {
  const double wanted = share * sample.total();
  for (int trial = 1; trial < 3; ++trial) {
    const double kept = sample.above(threshold);
    if (kept >= 2 * wanted / 3 && kept <= 4 * wanted / 3) break;
    threshold *= kept < wanted ? 0.5 : 1.5;
  }
  return threshold;
}

SC_BOTH void fitOfShi(Control& control, const Crew& crew) {
  const Magnitudes sample(control, crew);
  const double share = shareWanted(control);
  const double threshold = triedOfShi(sample, normalThreshold(sample, share), share);
  crew.alone([&] { setThreshold(control, threshold); });
}

SC_BOTH void fit(Control& control, const Crew& crew, double share, Trials trials) {
  const Magnitudes sample(control, crew);
  const double threshold = tried(sample, normalThreshold(sample, share), share, trials);
  crew.alone([&] { setThreshold(control, threshold); });
}

SC_BOTH void fitOfOkTopk(Control& control, const Crew& crew) { fit(control, crew, shareWanted(control), kOfOkTopk); }
SC_BOTH void fitDefault(Control& control, const Crew& crew) { fit(control, crew, requestedShare(control), kCareful); }

}  // namespace

constinit const Rule kGaussianOfShi = ruleOf<fitOfShi>("gaussian-shi");
constinit const Rule kGaussianOfOkTopk = ruleOf<fitOfOkTopk>("gaussian-oktopk");
constinit const Rule kGaussianDefault = ruleOf<fitDefault>("gaussian");

}  // namespace sparsecoll
