#include <algorithm>
#include <cmath>

#include "selectors/rules.h"
#include "selectors/sampled_threshold.h"
#include "selectors/sweeps.h"

namespace sparsecoll {

namespace {

constexpr int kSearchTrials = 400;
constexpr double kTrialBand = 0.01;    // of the wanted count, within which a threshold is taken
constexpr double kTurning = 0.5;  // factor of the step at every turn
constexpr double kStep = 0.02;
constexpr int kTrialsOfShi = 3;
constexpr int kTrialsOfOkTopk = 20;

SC_BOTH double normalThreshold(const Magnitudes& sample, double share) {
  const Magnitudes::Moments all = sample.excess(0);
  return normalQuantile(0.5 * std::min(share, 1.0)) * std::sqrt(all.variance + all.mean * all.mean);
}

SC_BOTH void fitDefault(Control& control, const Crew& crew) {
  const Magnitudes sample(control, crew);
  const double share = requestedShare(control);
  const double wanted = share * sample.total();
  double threshold = normalThreshold(sample, share);
  double step = kStep;
  bool rising = false;
  for (int trial = 0; trial < kSearchTrials; ++trial) {
    const double kept = sample.above(threshold);
    if (kept >= (1 - kTrialBand) * wanted && kept <= (1 + kTrialBand) * wanted) break;
    const bool rises = kept > wanted;
    if (trial > 0 && rises != rising) step *= kTurning;
    rising = rises;
    threshold = rises ? threshold * (1 + step) : threshold / (1 + step);
  }
  crew.alone([&] { setThreshold(control, reachable(threshold)); });
}

// With the mean of the entries, which is not quite 0.
template <class A>
SC_BOTH double normalThreshold(const Sweeps<A>& acc, double share) {
  const auto values = acc.ofValues();
  return values.mean + normalQuantile(0.5 * std::min(share, 1.0)) * std::sqrt(values.variance);
}

// Three trials, coarse ones. The last move is made after the last count, so nothing is selected with it.
template <class A>
SC_BOTH void tryOfShi(Control& control, const Sweeps<A>& acc, const Crew& crew) {
  const auto k = static_cast<double>(control.k);
  double threshold = normalThreshold(acc, shareWanted(control));
  uint64_t count = 0;
  for (int trial = 0; trial < kTrialsOfShi; ++trial) {
    if (trial != 0) threshold *= static_cast<double>(count) < 2 * k / 3 ? 0.5 : 1.5;
    count = acc.above(threshold);
    const auto kept = static_cast<double>(count);
    if (kept >= 2 * k / 3 && kept <= 4 * k / 3) break;
  }
  keepCounted(control, crew, threshold, count);
}

// All trials move in the direction of the first.
template <class A>
SC_BOTH void tryOfOkTopk(Control& control, const Sweeps<A>& acc, const Crew& crew) {
  const uint64_t few = 3 * control.k / 4;
  const uint64_t many = 5 * control.k / 4;
  double threshold = normalThreshold(acc, shareWanted(control));
  uint64_t count = acc.above(threshold);
  const bool lowers = count < few;
  for (int trial = 0; trial < kTrialsOfOkTopk && (lowers ? count < few : count > many); ++trial) {
    threshold = lowers ? threshold / (1 + kStep) : threshold * (1 + kStep);
    count = acc.above(threshold);
  }
  keepCounted(control, crew, threshold, count);
}

SC_BOTH void fitOfShi(const ListRuleArgs& args, const Crew& crew) {
  withSweeps(args, crew, [&](const auto& acc) { tryOfShi(*args.control, acc, crew); });
}
SC_BOTH void fitOfOkTopk(const ListRuleArgs& args, const Crew& crew) {
  withSweeps(args, crew, [&](const auto& acc) { tryOfOkTopk(*args.control, acc, crew); });
}

}  // namespace

constinit const ListRule kGaussianOfShi = crewListRuleOf<fitOfShi>("gaussian-shi");
constinit const ListRule kGaussianOfOkTopk = crewListRuleOf<fitOfOkTopk>("gaussian-oktopk");
constinit const Rule kGaussianDefault = ruleOf<fitDefault>("gaussian");

}  // namespace sparsecoll
