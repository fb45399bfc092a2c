// Random-k: the baseline that knows nothing of magnitudes. k indices are drawn by a counter-based generator, one out of
// each of k equal stretches of the vector, so they are distinct and in order without a permutation of n keys. Every
// rank draws its own, other ones in every step; the seed is params.seed. Published code permutes all n indices and
// takes the first k.
#include "selectors/selectors.h"

namespace sparsecoll {

Result<SelectionPlan> planRandom(const SelectionRequest& request) {
  const Wanted wanted = wantedOf(request);
  SelectionPlan plan;
  plan.k = wanted.now;
  plan.capacity = plan.mostEntries = wanted.most;
  plan.draws = true;
  plan.windows.push_back({});  // nothing is compared with a threshold
  return plan;
}

}  // namespace sparsecoll
