#include <algorithm>

#include "selectors/rules.h"
#include "selectors/sage.h"

namespace sparsecoll {

namespace {

constexpr double kMargin = 0.05;   // Slovin's
constexpr double kProbe = 1.1;     // the slope of the count is taken from here to the threshold
constexpr double kMostChange = 2;  // of the threshold in a step, beside alpha
constexpr double kLeastSlope = 0.5;
constexpr double kNone = 1e-300;   // no threshold to go on from

SC_BOTH double& meanBefore(Control& control) { return control.selector.as<SageState>().meanBefore; }

SC_BOTH double alphaOf(Control& control, double mean) {
  return meanBefore(control) > 0 && mean > 0 ? mean / meanBefore(control) : 1;
}

SC_BOTH void keep(Control& control, const Crew& crew, double mean, double threshold) {
  crew.alone([&] {
    meanBefore(control) = mean;
    setThreshold(control, threshold);
  });
}

SC_BOTH void scaleFaithful(Control& control, const Crew& crew) {
  const Magnitudes sample(control, crew);
  const auto n = static_cast<double>(control.n);
  const auto draws = static_cast<uint64_t>(n / (1 + n * kMargin * kMargin));
  const uint64_t seed = (control.iteration << 20) + (uint64_t{control.rank} << 10);
  const bool first = control.iteration == 0;
  const double mean = sample.meanOfDraws(std::max<uint64_t>(draws, 1), seed);
  const double alpha = alphaOf(control, mean);
  double threshold = control.threshold;
  if (!first) {
    const double wanted = shareWanted(control);
    const double scanned = sample.total() > 0 ? sample.above(threshold * alpha) / sample.total() : 0;
    const double beta = 2 / (1 + expOf(wanted - scanned));
    const double gamma = scanned < wanted / 10 ? 0.95 : scanned > wanted * 10 ? 1.05 : 1.0;
    threshold *= alpha * beta * gamma;
  }
  keep(control, crew, mean, threshold);
}

SC_BOTH void scaleDefault(Control& control, const Crew& crew) {
  const Magnitudes sample(control, crew);
  const double wanted = requestedShare(control) * sample.total();
  const double mean = sample.excess(0).mean;
  double threshold = control.threshold * alphaOf(control, mean);
  const double scanned = threshold > 0 ? sample.above(threshold) : 0;
  if (scanned == 0 || threshold < kNone) {
    threshold = largerOf(sample.quantile(wanted), kLeastMagnitude);
  } else {
    const double further = std::max(sample.above(threshold * kProbe), 0.5);
    const double slope = largerOf(lnOf(scanned / further) / lnOf(kProbe), kLeastSlope);
    threshold *= clamped(powOf(scanned / wanted, 1 / slope), 1 / kMostChange, kMostChange);
  }
  keep(control, crew, mean, threshold);
}

}  // namespace

constinit const Rule kSageFaithful = ruleOf<scaleFaithful>("sage-faithful");
constinit const Rule kSageDefault = ruleOf<scaleDefault>("sage");

}  // namespace sparsecoll
