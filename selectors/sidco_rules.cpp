#include <algorithm>
#include <cmath>
#include <limits>

#include "selectors/rules.h"
#include "selectors/sampled_threshold.h"
#include "selectors/sidco.h"
#include "selectors/sweeps.h"

namespace sparsecoll {

namespace {

constexpr double kFirstShare = 0.25;
constexpr double kDefaultStages = 3;
constexpr double kWindowSteps = 5;
constexpr double kTolerance = 0.2;

SC_BOTH double fitted(const Magnitudes::Moments& moments, sparsecollDistribution_t distribution, double delta) {
  if (distribution == sparsecollDistributionExponential) return sidco::exponentialQuantile(moments.mean, delta);
  return sidco::paretoQuantile(moments.mean, moments.variance, delta);
}

// Zeros have no logarithm: the gamma fit leaves them out, and the share grows accordingly.
SC_BOTH double fittedGamma(const Magnitudes& sample, double delta) {
  const double rise = sample.total() / sample.nonZeros();
  return sidco::gammaQuantileOf(sample.excess(0).mean * rise, sample.meanLn(), std::min(delta * rise, 1 - 1e-9));
}

SC_BOTH double thresholdFor(const Magnitudes& sample, sparsecollDistribution_t distribution, double delta,
                            double stages) {
  if (sample.nonZeros() < 2) return sample.nonZeros() <= delta * sample.total() ? 0 : sample.largest();
  const bool staged = stages > 1 && delta < kFirstShare;
  const double first = staged ? kFirstShare : delta;
  double threshold = distribution == sparsecollDistributionGammaPareto ? fittedGamma(sample, first)
                                                                       : fitted(sample.excess(0), distribution, first);
  if (!staged) return threshold;
  const double further = sidco::stageShare(delta, stages);
  for (double stage = 1; stage < stages; ++stage) {
    const Magnitudes::Moments tail = sample.excess(threshold);
    if (tail.count < 2) {  // magnitudes that are much alike have no tail of the fit's, and might never reach it
      if (stage == 1) threshold = std::min(threshold, sample.quantile(delta * sample.total()));
      break;
    }
    threshold += fitted(tail, distribution, further);
  }
  return threshold;
}

SC_BOTH double mostStages(double delta) { return std::max(1.0, std::ceil(lnOf(delta) / lnOf(0.5))); }

SC_BOTH SidcoState& sidcoState(Control& control) { return control.selector.as<SidcoState>(); }

template <sparsecollDistribution_t kDistribution>
SC_BOTH void fitDefault(Control& control, const Crew& crew) {
  const Magnitudes sample(control, crew);
  const double share = requestedShare(control);
  double threshold = thresholdFor(sample, kDistribution, share, kDefaultStages);
  if (sidcoState(control).loop.foundNone != 0) threshold = std::min(threshold, sample.quantile(share * sample.total()));
  crew.alone([&] { setThreshold(control, reachable(threshold)); });
}

// As published: c as it comes.
SC_BOTH double paretoAsPublished(double mean, double variance, double delta) {
  if (variance <= 0) return sidco::exponentialQuantile(mean, delta);
  const double ratio = mean * mean / variance;
  const double c = 0.5 * (ratio - 1);
  const double s = 0.5 * mean * (ratio + 1);
  return c != 0 ? s * (1 - powOf(delta, c)) / c : -s * lnOf(delta);
}

// Logarithms are of shares of the norm, and a little is added so that zeros have one.
template <class A>
SC_BOTH double gammaAsPublished(const Sweeps<A>& acc, double mean, double meanSquare, double delta) {
  if (mean <= 0) return 0;
  const double norm = std::sqrt(meanSquare * acc.length());
  const double meanLn = acc.sum([&](uint64_t i) {
    return lnOf(acc.magnitude(i) / norm + std::numeric_limits<double>::epsilon());
  }) / acc.length();
  const double shape = sidco::gammaShape(largerOf(lnOf(mean / norm) - meanLn, 1e-9));
  return mean / shape * gammaQuantile(shape, delta);
}

// A stage measures from the smallest entry above the last threshold.
template <sparsecollDistribution_t kDistribution, class A>
SC_BOTH double thresholdAsPublished(const Sweeps<A>& acc, double delta, double stages) {
  constexpr bool kExponential = kDistribution == sparsecollDistributionExponential;
  const bool staged = stages > 1 && delta < kFirstShare;
  const double first = staged ? kFirstShare : delta;
  const auto all = acc.excess(-1, 0);
  double threshold = kExponential ? sidco::exponentialQuantile(all.mean, first)
                     : kDistribution == sparsecollDistributionGammaPareto
                         ? gammaAsPublished(acc, all.mean, all.meanSquare, first)
                         : paretoAsPublished(all.mean, all.variance, first);
  if (!staged) return threshold;
  const double further = sidco::stageShare(delta, stages);
  for (double stage = 1; stage < stages; ++stage) {
    const double from = acc.smallestAbove(threshold);
    const auto tail = acc.excess(threshold, from);
    if (tail.count < 2) break;
    threshold = from + (kExponential ? sidco::exponentialQuantile(tail.mean, further)
                                     : paretoAsPublished(tail.mean, tail.variance, further));
  }
  return threshold;
}

template <sparsecollDistribution_t kDistribution>
SC_BOTH void fitFaithful(const ListRuleArgs& args, const Crew& crew) {
  Control& control = *args.control;
  const double staged = clamped(sidcoState(control).stages, 1.0, mostStages(shareWanted(control)));
  withSweeps(args, crew, [&](const auto& acc) {
    const double threshold = thresholdAsPublished<kDistribution>(acc, shareWanted(control), staged);
    const uint64_t count = acc.above(threshold);
    crew.alone([&] { sidcoState(control).stages = staged; });
    keepCounted(control, crew, threshold, count);
  });
}

SC_BOTH void adaptStages(Control& control) {
  if (control.k == 0) return;
  SidcoState& state = sidcoState(control);
  state.steps += 1;
  state.quality += static_cast<double>(control.windows[0].kept) / static_cast<double>(control.k);
  if (state.steps < kWindowSteps) return;
  const double quality = state.quality / kWindowSteps;
  state.steps = state.quality = 0;
  if (quality > 1 + kTolerance) state.stages -= 1;
  if (quality < 1 - kTolerance) state.stages += 1;
  state.stages = clamped(state.stages, 1.0, mostStages(shareWanted(control)));
}

template <sparsecollDistribution_t kDistribution>
constexpr SidcoRules kRules = {ruleOf<fitDefault<kDistribution>>("sidco-fit"),
                               crewListRuleOf<fitFaithful<kDistribution>>("sidco-faithful-fit")};

}  // namespace

const SidcoRules& sidcoRulesOf(sparsecollDistribution_t distribution) {
  switch (distribution) {
    case sparsecollDistributionExponential:
      return kRules<sparsecollDistributionExponential>;
    case sparsecollDistributionGammaPareto:
      return kRules<sparsecollDistributionGammaPareto>;
    default:
      return kRules<sparsecollDistributionPareto>;
  }
}

constinit const Rule kSidcoAdaptStages = ruleOf<adaptStages>("sidco-stages");

namespace sidco {

SC_BOTH double exponentialQuantile(double mean, double delta) { return -mean * lnOf(delta); }

SC_BOTH Pareto paretoOf(double mean, double variance) {
  if (variance <= 0) return {0, mean};
  const double ratio = mean * mean / variance;
  return {std::max(0.5 * (ratio - 1), -0.49), 0.5 * mean * (ratio + 1)};  // a finite variance needs c above -1/2
}

SC_BOTH double paretoQuantile(double mean, double variance, double delta) {
  const auto [c, s] = paretoOf(mean, variance);
  if (std::abs(c) < 1e-4) return -s * lnOf(delta);
  return s * (1 - powOf(delta, c)) / c;
}

SC_BOTH double gammaShape(double s) { return (3 - s + std::sqrt((s - 3) * (s - 3) + 24 * s)) / (12 * s); }

SC_BOTH double gammaQuantileOf(double mean, double meanLn, double delta) {
  const double shape = gammaShape(std::max(lnOf(mean) - meanLn, 1e-9));
  return mean / shape * gammaQuantile(shape, delta);
}

SC_BOTH double stageShare(double delta, double stages) { return powOf(delta / kFirstShare, 1 / (stages - 1)); }

}  // namespace sidco

}  // namespace sparsecoll
