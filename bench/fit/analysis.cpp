#include "bench/fit/analysis.h"

#include "bench/common/recording.h"
#include "selectors/selection.h"

namespace bench {

Analysis::Analysis(const std::string& name, const std::vector<double>& wanted)
    : Analysis(name, readGradient(name), wanted) {}

Analysis::Analysis(const std::string& name, const std::vector<float>& gradient, const std::vector<double>& wanted)
    : file(name), exact(gradient), sample(gradient), moments(exact.moments()), fits(fitsOf(sample)) {
  for (const double density : wanted) {
    const uint64_t k = sparsecoll::entriesOf(density, exact.n());
    AtDensity& at = densities.emplace_back(AtDensity{density, k, exact.topK(k), {}});
    for (const Estimator& estimator : estimators()) {
      const double threshold = estimator.threshold(sample, k);
      at.estimates.push_back({estimator.name, threshold, exact.kept(threshold)});
    }
  }
}

}  // namespace bench
