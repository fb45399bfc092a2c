#include <algorithm>

#include "selectors/draws.h"
#include "selectors/rules.h"
#include "selectors/sage.h"
#include "selectors/sweeps.h"

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

// The mean of the drawn magnitudes, in the order of the draws.
template <class A, class Place>
SC_BOTH double meanDrawn(const Sweeps<A>& acc, const Control& control, const Crew& crew, const Place& place) {
  const auto n = static_cast<double>(control.n);
  const auto draws = std::max<uint64_t>(static_cast<uint64_t>(n / (1 + n * kMargin * kMargin)), 1);
  const double sum = crew.sum<double>(0, draws, [&](uint64_t i) { return largerOf(acc.magnitude(place(i)), 0); });
  return sum / static_cast<double>(draws);
}

template <class A>
SC_BOTH void scaleFaithful(Control& control, const Sweeps<A>& acc, const Crew& crew, double mean) {
  double threshold = control.threshold;
  if (control.iteration != 0) {
    const double alpha = alphaOf(control, mean);
    const double wanted = shareWanted(control);
    const double scanned = static_cast<double>(acc.reaching(threshold * alpha)) / acc.length();
    const double beta = 2 / (1 + expOf(wanted - scanned));
    const double gamma = scanned < wanted / 10 ? 0.95 : scanned > wanted * 10 ? 1.05 : 1.0;
    threshold *= alpha * beta * gamma;
  }
  crew.alone([&] {
    meanBefore(control) = mean;
    control.threshold = threshold;
  });
}

template <class A>
SC_BOTH void keepReaching(Control& control, const A* acc, const Crew& crew) {
  for (uint32_t w = 0; w < control.windowCount; ++w) {
    Window& window = control.windows[w];
    const uint64_t count = Sweeps<A>(acc, window.begin, window.end, crew).reaching(control.threshold);
    crew.alone([&] { keepCounted(control, window, count); });
  }
}

// kByTensor: a window a tensor, which is drawn first.
template <bool kByTensor, class A>
SC_BOTH void scaleWith(Control& control, const A* acc, const Crew& crew) {
  const Sweeps<A> all(acc, 0, control.n, crew);
  const uint64_t seed = drawSeed(control);
  const double mean = meanDrawn(all, control, crew, [&](uint64_t draw) {
    if constexpr (!kByTensor) return drawBelow(control.n, seed + draw);
    const Window& tensor = control.windows[drawBelow(control.windowCount, seed + 2 * draw)];
    return tensor.begin + drawBelow(tensor.end - tensor.begin, seed + 2 * draw + 1);
  });
  scaleFaithful(control, all, crew, mean);
  keepReaching(control, acc, crew);
}

template <bool kByTensor>
SC_BOTH void scaleAsPublished(const ListRuleArgs& args, const Crew& crew) {
  if (args.control->isDouble != 0)
    scaleWith<kByTensor>(*args.control, static_cast<const double*>(args.acc), crew);
  else
    scaleWith<kByTensor>(*args.control, static_cast<const float*>(args.acc), crew);
}

SC_BOTH void scaleDefault(Control& control, const Crew& crew) {
  const Magnitudes sample(control, crew);
  const double wanted = requestedShare(control) * sample.total();
  const double mean = sample.excess(0).mean;
  double threshold = control.threshold * alphaOf(control, mean);
  const double scanned = threshold > 0 ? sample.above(threshold) : 0;
  if (scanned == 0 || threshold < kNone) {
    threshold = reachable(sample.quantile(wanted));
  } else {
    const double further = std::max(sample.above(threshold * kProbe), 0.5);
    const double slope = largerOf(lnOf(scanned / further) / lnOf(kProbe), kLeastSlope);
    threshold *= clamped(powOf(scanned / wanted, 1 / slope), 1 / kMostChange, kMostChange);
  }
  keep(control, crew, mean, threshold);
}

}  // namespace

constinit const ListRule kSageFaithful = crewListRuleOf<scaleAsPublished<false>>("sage-faithful");
constinit const ListRule kSageFaithfulByTensor = crewListRuleOf<scaleAsPublished<true>>("sage-faithful-by-tensor");
constinit const Rule kSageDefault = ruleOf<scaleDefault>("sage");

}  // namespace sparsecoll
