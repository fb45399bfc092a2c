// DEFT: the vector is cut into fragments; every rank selects the largest entries of its own fragments only, as many as
// the fragments' norms call for. Fragments are packed into one bin a rank by their cost, and bins rotate.
//
// Default: the ranks gather the norms of all fragments and use their sum, so that every rank computes the same entries
// and the same bins; nobody waits for a leader, and the entries add up to k. Faithful: rank t mod P's norms decide the
// bins of step t, and each rank takes as many entries as its own norms say. A fragment of which the leader would send
// every entry travels whole, whatever the others' norms say.
#include "selectors/deft.h"

#include <algorithm>
#include <numeric>

#include "selectors/rules.h"
#include "selectors/selectors.h"

namespace sparsecoll {

std::vector<uint64_t> fragmentEnds(std::span<const uint64_t> lengths, uint64_t ranks) {
  const uint64_t n = std::accumulate(lengths.begin(), lengths.end(), uint64_t{0});
  std::vector<uint64_t> ends;
  uint64_t begin = 0;
  for (const uint64_t length : lengths) {
    const bool cut = static_cast<double>(length) > static_cast<double>(n) / static_cast<double>(ranks);
    const uint64_t pieces = cut ? std::min(ranks, length) : 1;
    for (uint64_t p = 0; p < pieces; ++p) {
      begin += length / pieces + (p < length % pieces ? 1 : 0);
      ends.push_back(begin);
    }
  }
  return ends;
}

namespace {

Result<SelectionPlan> planDeft(const SelectionRequest& request) {
  const Wanted wanted = wantedOf(request);
  std::vector<uint64_t> lengths;
  for (const sparsecollSegment_t& segment : request.segments) lengths.push_back(segment.length);
  if (lengths.empty()) lengths.push_back(request.n);
  SelectionPlan plan;
  plan.k = wanted.now;
  uint64_t begin = 0;
  for (const uint64_t end : fragmentEnds(lengths, static_cast<uint64_t>(request.ranks))) {
    WindowPlan window;
    window.begin = begin;
    window.end = end;
    window.room = end - begin;
    window.lazy = true;
    plan.windows.push_back(window);
    begin = end;
  }
  const uint64_t fragments = plan.windows.size();
  // No fragment gets less than one entry. A rank's own norms may ask for more than k in its bin, but never for more
  // than k and one a fragment; nor do the fragments have more that the leader sends whole.
  plan.mostEntries =
      std::min(request.n, request.faithful() ? wanted.most + fragments : std::max(wanted.most, fragments));
  plan.capacity = std::min(request.n, (request.faithful() ? 2 : 1) * plan.mostEntries);
  plan.lazySlots = std::min(request.n, 3 * plan.capacity + 16384);
  plan.state.table(&DeftState::lengths, fragments);
  plan.state.table(&DeftState::entries, fragments);
  plan.state.table(&DeftState::order, fragments);
  plan.state.table(&DeftState::bins, fragments);
  plan.state.table(&DeftState::norms, fragments);
  plan.state.table(&DeftState::costs, fragments);
  plan.state.table(&DeftState::loads, static_cast<uint64_t>(request.ranks));
  plan.survey = {SurveyKind::kNorms, fragments,
                 plan.state.table(&DeftState::announced, static_cast<uint64_t>(request.ranks) * fragments)};
  plan.afterSurvey = request.faithful() ? &kDeftShareAsPublished : &kDeftShare;
  return plan;
}

constexpr const char* kPaper = "Yoon and Oh 2023 (DEFT), arXiv:2307.03500";

constexpr PresetRow kPresets[] = {
    {.name = "deft",
     .summary = "top-k in fragments, as many as their norms call for",
     .paper = kPaper,
     .selector = sparsecollSelectDeft,
     .collective = sparsecollCollIndexUnion},
};

}  // namespace

constinit extern const SelectorRow kDeftRow = {
    .id = sparsecollSelectDeft,
    .name = "deft",
    .paper = kPaper,
    .plan = planDeft,
    .collective = sparsecollCollIndexUnion,
    .densityIsGlobal = true,
    .bound = {1, 40},
    .faithfulBound = {1, 40},
    .presets = kPresets,
};

}  // namespace sparsecoll
