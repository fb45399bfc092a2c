// RedSync (Fang, Fu, Yang and Hsieh, JPDC 2019): the threshold is searched between the mean and the largest magnitude
// by halving. Faithful: at most three halvings, ended early by a count between k and 2 k; the published test moves the
// upper end below k / 2 only, so it often ends far off. Default: halvings until the count is within 1 % of k.
// Counts come from the histogram of a sample, and the largest magnitude is the sample's.
#include <cmath>

#include "selectors/closed_loop.h"
#include "selectors/selectors.h"

namespace sparsecoll {

namespace {

constexpr double kPublishedWidth = 0.2;
constexpr int kHalvings = 48;
constexpr double kClose = 0.01;

struct Span {
  double mean, largest;
  double at(double share) const { return mean + share * (largest - mean); }
};

Span spanOf(const Magnitudes& sample) { return {sample.excess(0).mean, sample.largest()}; }

void searchFaithful(Control& control) {
  const Magnitudes sample(control);
  const Span span = spanOf(sample);
  const double wanted = shareWanted(control) * sample.total();
  double low = 0;
  double high = 1;
  double threshold = span.at(0);
  while (high - low > kPublishedWidth) {
    const double middle = 0.5 * (low + high);
    threshold = span.at(middle);
    const double count = sample.above(threshold);
    if (count > wanted && count < 2 * wanted) break;
    (count < 0.5 * wanted ? high : low) = middle;
  }
  setThreshold(control, threshold);
}

// Where more than k entries exceed the mean the answer lies between it and the largest, else between 0 and it.
void searchDefault(Control& control) {
  const Magnitudes sample(control);
  Span span = spanOf(sample);
  const double wanted = requestedShare(control) * sample.total();
  if (sample.above(span.mean) < wanted) span = {0, span.mean};
  double low = 0;
  double high = 1;
  double threshold = span.at(0);
  for (int halving = 0; halving < kHalvings; ++halving) {
    const double middle = 0.5 * (low + high);
    threshold = span.at(middle);
    const double count = sample.above(threshold);
    if (std::abs(count - wanted) <= kClose * wanted) break;
    (count < wanted ? high : low) = middle;
  }
  setThreshold(control, threshold);
}

constexpr Rule kSearchFaithful = ruleOf<searchFaithful>("redsync-faithful");
constexpr Rule kSearchDefault = ruleOf<searchDefault>("redsync");

}  // namespace

Result<SelectionPlan> planRedSync(const SelectionRequest& request) {
  return planSampledThreshold(request, kSearchFaithful, kSearchDefault);
}

}  // namespace sparsecoll
