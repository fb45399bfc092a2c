// Random-k: the baseline that knows nothing of magnitudes. k indices are drawn by a counter-based generator, one out of
// each of k equal stretches of the vector, so they are distinct and in order without a permutation of n keys. Every
// rank draws its own, other ones in every step; the seed is params.seed. Published code permutes all n indices and
// takes the first k.
#include "selectors/rules.h"
#include "selectors/selectors.h"

namespace sparsecoll {

namespace {

Result<SelectionPlan> planRandom(const SelectionRequest& request) {
  const Wanted wanted = wantedOf(request);
  SelectionPlan plan;
  plan.k = wanted.now;
  plan.capacity = plan.mostEntries = wanted.most;
  plan.picks = &kRandomDraw;
  plan.windows.push_back({});  // nothing is compared with a threshold
  return plan;
}

constexpr const char* kPaper = "Stich et al. 2018, arXiv:1809.07599";

constexpr PresetRow kPresets[] = {
    {.name = "randomk",
     .summary = "k entries drawn without regard to their size",
     .paper = kPaper,
     .selector = sparsecollSelectRandom,
     .collective = sparsecollCollAllGather},
};

}  // namespace

constinit extern const SelectorRow kRandomRow = {
    .id = sparsecollSelectRandom,
    .name = "random",
    .paper = kPaper,
    .plan = planRandom,
    .collective = sparsecollCollAllGather,
    .bound = {1, 16},
    .faithfulBound = {1, 16},
    .presets = kPresets,
};

}  // namespace sparsecoll
