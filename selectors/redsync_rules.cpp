#include <cmath>

#include "selectors/rules.h"
#include "selectors/sampled_threshold.h"
#include "selectors/sweeps.h"

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

// As published, also that the last threshold tried is taken whatever its count.
template <class A>
SC_BOTH void searchFaithful(Control& control, const Sweeps<A>& acc, const Crew& crew) {
  const Span span = {acc.excess(-1, 0).mean, acc.largest()};
  const auto k = static_cast<double>(control.k);
  double low = 0;
  double high = 1;
  double threshold = 0;
  uint64_t count = 0;
  while (high - low > kPublishedWidth) {
    const double middle = low + (high - low) / 2;
    threshold = span.at(middle);
    count = acc.above(threshold);
    const auto found = static_cast<double>(count);
    if (found > k && 2 * k > found) break;
    (found < k / 2 ? high : low) = middle;
  }
  keepCounted(control, crew, threshold, count);
}

SC_BOTH void sweep(const ListRuleArgs& args, const Crew& crew) {
  withSweeps(args, crew, [&](const auto& acc) { searchFaithful(*args.control, acc, crew); });
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
  crew.alone([&] { setThreshold(control, reachable(threshold)); });
}

}  // namespace

constinit const ListRule kRedSyncFaithful = crewListRuleOf<sweep>("redsync-faithful");
constinit const Rule kRedSyncDefault = ruleOf<searchDefault>("redsync");

}  // namespace sparsecoll
