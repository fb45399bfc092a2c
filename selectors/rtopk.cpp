// rTop-k (Barnes, Inan, Isik and Ozgur, IEEE JSAIT 2020, "rTop-k: A statistical estimation approach to distributed
// SGD"): k entries drawn at random of the r largest. Every rank draws its own, other ones in every step; the seed is
// params.seed, r is params.candidates.
//
// The r largest are cut as a top-k is, key and all. They are taken for a ring in index order that begins at a random
// place, and one is drawn out of each of k equal stretches of it: k different ones, in order, each of the r with the
// same probability. The paper draws any k of them.
#include <algorithm>

#include "selectors/rules.h"
#include "selectors/selectors.h"

namespace sparsecoll {

extern const ListRule kRandomOfTopDraw;  // rtopk_rules.cpp

namespace {

constexpr uint64_t kUsualCandidates = 2;  // times k
constexpr double kFirstSpread = 0.04;
constexpr uint64_t kSpare = 16384;  // room for keys that are too low, beyond three times what the cut keeps

Result<SelectionPlan> planRandomOfTop(const SelectionRequest& request) {
  const Wanted wanted = wantedOf(request);
  const uint64_t asked = request.params.candidates;
  if (asked != 0 && std::min(asked, request.n) < wanted.most)
    return invalid("params.candidates is {}, {} entries are to be drawn of them", asked, wanted.most);
  const auto candidatesFor = [&](uint64_t k) {
    return k == 0 ? 0 : std::min(request.n, asked != 0 ? asked : kUsualCandidates * k);
  };
  SelectionPlan plan;
  plan.k = wanted.now;
  plan.capacity = plan.mostEntries = wanted.most;
  plan.kept = std::max<uint64_t>(candidatesFor(wanted.most), 1);
  plan.picks = &kRandomOfTopDraw;
  plan.afterCut = &kTopKAfterCut;
  WindowPlan window;
  window.end = request.n;
  window.limit = candidatesFor(wanted.now);
  window.room = plan.kept;
  window.slots = std::min(request.n, 3 * plan.kept + kSpare);
  window.key = window.limit == request.n ? 0 : infinityKey(request.accumulateType == sparsecollFloat64);
  window.spread = kFirstSpread;
  plan.windows.push_back(window);
  return plan;
}

constexpr const char* kPaper = "Barnes et al. 2020 (rTop-k), arXiv:2005.10761";

constexpr PresetRow kPresets[] = {
    {.name = "rtopk",
     .summary = "k entries drawn of the r largest",
     .paper = kPaper,
     .selector = sparsecollSelectRandomOfTop,
     .collective = sparsecollCollAllGather},
};

}  // namespace

constinit extern const SelectorRow kRandomOfTopRow = {
    .id = sparsecollSelectRandomOfTop,
    .name = "random_of_top",
    .paper = kPaper,
    .plan = planRandomOfTop,
    .collective = sparsecollCollAllGather,
    .bound = {5, 16},
    .faithfulBound = {5, 16},
    .presets = kPresets,
};

}  // namespace sparsecoll
