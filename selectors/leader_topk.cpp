// CLT-k (Chen et al., NeurIPS 2020, "ScaleCom"): one rank selects the top k of its own acc, and all ranks send their
// values there. The leader rotates. Only the leader selects; the others' lists are empty. Its key is the k-th
// magnitude of its last turn, lowered as far as that has moved before.
#include <algorithm>

#include "selectors/rules.h"
#include "selectors/selectors.h"

namespace sparsecoll {

namespace {

constexpr double kFirstSpread = 0.1;

Result<SelectionPlan> planLeaderTopK(const SelectionRequest& request) {
  const Wanted wanted = wantedOf(request);
  SelectionPlan plan;
  plan.k = wanted.now;
  plan.capacity = plan.mostEntries = wanted.most;
  plan.before = &kLeaderTakeTurn;
  plan.afterCut = &kLeaderNoteKey;
  WindowPlan window;
  window.end = request.n;
  window.room = wanted.most;
  window.slots = std::min(request.n, 3 * wanted.most + 16384);
  window.spread = kFirstSpread;
  plan.windows.push_back(window);
  return plan;
}

constexpr const char* kPaper = "Chen et al. 2020 (ScaleCom), arXiv:2104.11125";

constexpr PresetRow kPresets[] = {
    {.name = "cltk",
     .summary = "one rank's top k in rotation, all ranks' values there",
     .paper = kPaper,
     .selector = sparsecollSelectLeaderTopK,
     .collective = sparsecollCollIndexUnion},
};

}  // namespace

constinit extern const SelectorRow kLeaderTopKRow = {
    .id = sparsecollSelectLeaderTopK,
    .name = "leader_topk",
    .paper = kPaper,
    .plan = planLeaderTopK,
    .collective = sparsecollCollIndexUnion,
    .densityIsGlobal = true,
    .bound = {1, 40},
    .faithfulBound = {1, 40},
    .presets = kPresets,
};

}  // namespace sparsecoll
