// Rules that are more than a few numbers: one block each, while the rest of the device waits.
#include <vector>

#include "bench/common/random.h"
#include "bench/device/cases.h"
#include "selectors/deft.h"
#include "selectors/rules.h"
#include "selectors/selectors.h"

namespace bench {

namespace {

Outcome timed(const Vectors& vectors, const Device::Selecting& selection, const sparsecoll::Rule& rule) {
  const Device& device = vectors.device();
  Operation operation;
  operation.steps = {[&] { device.kernels().apply(rule, selection->control(), selection.stream()); }};
  Outcome outcome = vectors.timed(operation);
  device.finish();
  return outcome;
}

// On the histogram of a sample of normal noise.
template <const sparsecoll::Rule& kRule>
Outcome onHistogram(const Vectors& vectors, double density) {
  sparsecoll::SelectionRequest request;
  request.n = vectors.n();
  request.density = density;
  const auto selection = vectors.device().select(sparsecoll::selectorRow(sparsecollSelectSidco)->plan, request);
  sparsecoll::SelectionInput input;
  input.gradient = vectors.gradient(0);
  selection->pass(input, selection.stream());
  return timed(vectors, selection, kRule);
}

const sparsecoll::Rule kSidcoFit = sparsecoll::sidcoRulesOf(sparsecollDistributionGammaPareto).fitDefault;

// 300 fragments of equal length on 8 ranks, whose norms differ.
Outcome deftShare(const Vectors& vectors, double density) {
  const uint64_t fragments = std::min(kSegments, vectors.n());
  std::vector<sparsecollSegment_t> segments(fragments);
  for (uint64_t f = 0; f < fragments; ++f)
    segments[f].length = vectors.n() * (f + 1) / fragments - vectors.n() * f / fragments;
  sparsecoll::SelectionRequest request;
  request.n = vectors.n();
  request.density = density;
  request.segments = segments;
  request.ranks = kSelectionRanks;
  const auto selection = vectors.device().select(sparsecoll::selectorRow(sparsecollSelectDeft)->plan, request);
  std::vector<double> norms(kSelectionRanks * selection->surveyLength());
  for (uint64_t i = 0; i < norms.size(); ++i) norms[i] = unit(mixBits(i));
  checkCuda(cudaMemcpy(selection->surveyRows(), norms.data(), norms.size() * sizeof(double), cudaMemcpyDefault),
            "cudaMemcpy");
  waitForDevice();
  Outcome outcome = timed(vectors, selection, sparsecoll::kDeftShare);
  std::vector<uint64_t> entries(selection->surveyLength());
  const auto& state = selection->tables().selector.as<sparsecoll::DeftState>();
  checkCuda(cudaMemcpy(entries.data(), state.entries, entries.size() * sizeof(uint64_t), cudaMemcpyDefault),
            "cudaMemcpy");
  uint64_t sum = 0;
  for (const uint64_t of : entries) sum += of;
  const uint64_t k = std::max<uint64_t>(selection->k(), entries.size());
  outcome.counters = {{"fragments", static_cast<double>(entries.size())}};
  outcome.wrong = sum > k ? sum - k : k - sum;
  return outcome;
}

constexpr CaseKind kRules[] = {
    {"rule_sidco", "SIDCo's gamma and Pareto fits to a histogram", true, onHistogram<kSidcoFit>},
    {"rule_sage", "SAGE's threshold from a histogram", true, onHistogram<sparsecoll::kSageDefault>},
    {"rule_dgc", "DGC's threshold from a histogram", true, onHistogram<sparsecoll::kSampledDefault>},
    {"rule_gaussiank", "Gaussian-k's search in a histogram", true, onHistogram<sparsecoll::kGaussianDefault>},
    {"rule_deft", "DEFT's shares of 300 fragments and their bins", true, deftShare},
};

}  // namespace

std::span<const CaseKind> ruleCases() { return kRules; }

}  // namespace bench
