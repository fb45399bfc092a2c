#include <cmath>

#include "selectors/rules.h"
#include "selectors/sampled_threshold.h"

namespace sparsecoll {

namespace {

constexpr double kPublishedWidth = 0.2;
constexpr int kHalvings = 48;
constexpr double kClose = 0.01;

struct Span {
  double mean, largest;
  SC_BOTH double at(double share) const { return mean + share * (largest - mean); }
};

SC_BOTH Span spanOf(const Magnitudes& sample) { return {sample.excess(0).mean, sample.largest()}; }

SC_BOTH void searchFaithful(Control& control, const Crew& crew) {
  const Magnitudes sample(control, crew);
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
  crew.alone([&] { setThreshold(control, threshold); });
}

// Where more than k entries exceed the mean the answer lies between it and the largest, else between 0 and it.
SC_BOTH void searchDefault(Control& control, const Crew& crew) {
  const Magnitudes sample(control, crew);
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
  crew.alone([&] { setThreshold(control, threshold); });
}

}  // namespace

constinit const Rule kRedSyncFaithful = ruleOf<searchFaithful>("redsync-faithful");
constinit const Rule kRedSyncDefault = ruleOf<searchDefault>("redsync");

}  // namespace sparsecoll
