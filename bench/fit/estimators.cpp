#include "bench/fit/estimators.h"

#include <algorithm>

#include "bench/common/errors.h"
#include "core/math.h"
#include "selectors/selectors.h"
#include "selectors/sidco.h"

namespace bench {

namespace {

using sparsecoll::PlanFunction;

sparsecoll::SelectionRequest requestFor(const Sample& sample, uint64_t k) {
  sparsecoll::SelectionRequest request;
  request.n = sample.control().n;
  request.k = k;
  return request;
}

// stages: of SIDCo's faithful rule, which keeps their number between steps.
double thresholdOf(PlanFunction plan, const sparsecoll::SelectionRequest& request, const Sample& sample,
                   double stages = 0) {
  auto planned = plan(request);
  if (!planned.ok()) throw EnvironmentError(planned.takeStatus().failure().text.c_str());
  sparsecoll::Window window{};
  sparsecoll::Control control = sample.control();
  control.windows = &window;
  control.windowCount = 1;
  control.k = planned->k;
  control.selector.as<sparsecoll::SidcoState>().stages = stages;
  if (planned->fromAcc != nullptr) {
    window.end = control.n;
    window.room = planned->windows[0].room;
    sparsecoll::ListRuleArgs args;
    args.control = &control;
    args.acc = sample.gradient().data();
    sparsecoll::Finding finding{};
    planned->fromAcc->onHost(args, finding);
  } else {
    planned->afterSample->onHost(control);
  }
  return control.threshold;
}

double quantile(const Sample& sample, uint64_t k) {
  const auto magnitudes = sample.magnitudes();
  return magnitudes.quantile(static_cast<double>(k) / static_cast<double>(sample.control().n) * magnitudes.total());
}

template <sparsecollDistribution_t kDistribution, int kStages>
double staged(const Sample& sample, uint64_t k) {
  auto request = requestFor(sample, k);
  request.params.distribution = kDistribution;
  request.params.faithful = 1;
  return thresholdOf(sparsecoll::selectorRow(sparsecollSelectSidco)->plan, request, sample, kStages);
}

template <sparsecollDistribution_t kDistribution>
double preset(const Sample& sample, uint64_t k) {
  auto request = requestFor(sample, k);
  request.params.distribution = kDistribution;
  return thresholdOf(sparsecoll::selectorRow(sparsecollSelectSidco)->plan, request, sample);
}

template <sparsecollSelect_t kSelector, bool kFaithful>
double searched(const Sample& sample, uint64_t k) {
  auto request = requestFor(sample, k);
  request.params.faithful = kFaithful ? 1 : 0;
  return thresholdOf(sparsecoll::selectorRow(kSelector)->plan, request, sample);
}

constexpr auto kExponential = sparsecollDistributionExponential;
constexpr auto kGammaPareto = sparsecollDistributionGammaPareto;
constexpr auto kPareto = sparsecollDistributionPareto;

constexpr Estimator kEstimators[] = {
    {"histogram quantile", nullptr, false, quantile},
    {"exponential", "#1f77b4", true, staged<kExponential, 1>},
    {"gamma", "#2ca02c", true, staged<kGammaPareto, 1>},
    {"Pareto", "#d62728", true, staged<kPareto, 1>},
    {"sidco-e, 2 stages", nullptr, false, staged<kExponential, 2>},
    {"sidco-e", "#1f77b4", false, preset<kExponential>},
    {"sidco-gp, 2 stages", nullptr, false, staged<kGammaPareto, 2>},
    {"sidco-gp", "#2ca02c", false, preset<kGammaPareto>},
    {"sidco-p, 2 stages", nullptr, false, staged<kPareto, 2>},
    {"sidco-p", "#d62728", false, preset<kPareto>},
    {"gaussiank, faithful", nullptr, false, searched<sparsecollSelectGaussian, true>},
    {"gaussiank", nullptr, false, searched<sparsecollSelectGaussian, false>},
    {"redsync, faithful", nullptr, false, searched<sparsecollSelectRedSync, true>},
    {"redsync", nullptr, false, searched<sparsecollSelectRedSync, false>},
};

}  // namespace

std::optional<Fits> fitsOf(const Sample& sample) {
  const auto magnitudes = sample.magnitudes();
  if (magnitudes.nonZeros() < 2) return std::nullopt;
  const auto all = magnitudes.excess(0);
  const double mean = all.mean * magnitudes.total() / magnitudes.nonZeros();
  const double shape = sparsecoll::sidco::gammaShape(std::max(sparsecoll::lnOf(mean) - magnitudes.meanLn(), 1e-9));
  return Fits{all.mean, shape, mean / shape, sparsecoll::sidco::paretoOf(all.mean, all.variance)};
}

std::span<const Estimator> estimators() { return kEstimators; }

}  // namespace bench
