// SAGE (Yoon, Jeong and Oh, J. Supercomputing 2023): the threshold follows the mean magnitude (alpha), and is nudged by
// what a scan with it would keep (beta, gamma). Each rank has its own.
//
// Faithful: alpha is the ratio of the means of Slovin's n / (1 + 0.05^2 n) drawn entries, beta = 2 / (1 + e^(d - den)),
// gamma = 0.95 below a tenth of the density, 1.05 above ten times it; the first threshold is 1 / (2 sqrt(k)). Scan and
// draws use the histogram of a sample. Default: alpha from the mean of the whole sample; in place of beta and gamma one
// Newton step in the logarithm takes the scanned density to the wanted one; the first threshold is the sample's
// quantile.
#include <algorithm>

#include "core/math.h"
#include "selectors/closed_loop.h"
#include "selectors/selectors.h"

namespace sparsecoll {

namespace {

constexpr double kMargin = 0.05;   // Slovin's
constexpr double kProbe = 1.1;     // the slope of the count is taken from here to the threshold
constexpr double kMostChange = 2;  // of the threshold in a step, beside alpha
constexpr double kLeastSlope = 0.5;
constexpr double kLeast = 5e-324;  // every entry but 0 reaches it: fewer of them than k are all sent
constexpr double kNone = 1e-300;   // no threshold to go on from

double& meanBefore(Control& control) { return control.kept[0]; }

double alphaOf(Control& control, double mean) {
  const double alpha = meanBefore(control) > 0 && mean > 0 ? mean / meanBefore(control) : 1;
  meanBefore(control) = mean;
  return alpha;
}

void scaleFaithful(Control& control) {
  const Magnitudes sample(control);
  const auto n = static_cast<double>(control.n);
  const auto draws = static_cast<uint64_t>(n / (1 + n * kMargin * kMargin));
  const uint64_t seed = (control.iteration << 20) + (uint64_t{control.rank} << 10);
  const bool first = control.iteration == 0;
  const double alpha = alphaOf(control, sample.meanOfDraws(std::max<uint64_t>(draws, 1), seed));
  double threshold = control.threshold;
  if (!first) {
    const double wanted = shareWanted(control);
    const double scanned = sample.total() > 0 ? sample.above(threshold * alpha) / sample.total() : 0;
    const double beta = 2 / (1 + expOf(wanted - scanned));
    const double gamma = scanned < wanted / 10 ? 0.95 : scanned > wanted * 10 ? 1.05 : 1.0;
    threshold *= alpha * beta * gamma;
  }
  setThreshold(control, threshold);
}

void scaleDefault(Control& control) {
  const Magnitudes sample(control);
  const double wanted = requestedShare(control) * sample.total();
  double threshold = control.threshold * alphaOf(control, sample.excess(0).mean);
  const double scanned = threshold > 0 ? sample.above(threshold) : 0;
  if (scanned == 0 || threshold < kNone) {
    threshold = std::max(sample.quantile(wanted), kLeast);
  } else {
    const double further = std::max(sample.above(threshold * kProbe), 0.5);
    const double slope = std::max(lnOf(scanned / further) / lnOf(kProbe), kLeastSlope);
    threshold *= std::clamp(powOf(scanned / wanted, 1 / slope), 1 / kMostChange, kMostChange);
  }
  setThreshold(control, threshold);
}

constexpr Rule kScaleFaithful = ruleOf<scaleFaithful>("sage-faithful");
constexpr Rule kScaleDefault = ruleOf<scaleDefault>("sage");

}  // namespace

Result<SelectionPlan> planSage(const SelectionRequest& request) {
  SelectionPlan plan = planSampledThreshold(request, kScaleFaithful, kScaleDefault);
  if (request.faithful) plan.threshold = firstThreshold(request.threshold, plan.k);
  return plan;
}

}  // namespace sparsecoll
