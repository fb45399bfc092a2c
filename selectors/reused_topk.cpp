// Ok-Topk's local selection (Li and Hoefler, PPoPP 2022): the smallest magnitude of an exact top k is the threshold of
// the steps that follow.
//
// Faithful: every 32 steps are exact. In between the threshold moves by 1.2 % where fewer than 2 k / 3 or more than 5 k
// / 4 entries passed; at most 4 k / 3 travel (the code raises its threshold by 3 % up to five times until no more
// pass). Default: the threshold stays a little below the last k-th magnitude. Where k entries or more pass, the k
// largest of them travel, and their smallest is the next one: an exact step for nothing. Where fewer pass it sinks with
// their number; should a tenth of k be missing, the next step reads the vector for an exact top k.
#include "selectors/reused_topk.h"

#include <algorithm>
#include <cmath>

#include "selectors/rules.h"
#include "selectors/selectors.h"

namespace sparsecoll {

namespace {

constexpr double kRoom = 4.0 / 3;

Result<SelectionPlan> planReusedTopK(const SelectionRequest& request) {
  const Wanted wanted = wantedOf(request);
  SelectionPlan plan;
  plan.k = wanted.now;
  plan.mostEntries = wanted.most;
  plan.capacity = wanted.most;
  if (request.faithful()) {
    plan.capacity = std::min(request.n, static_cast<uint64_t>(std::ceil(kRoom * static_cast<double>(wanted.most))));
    plan.before = &kReuseBeforeFaithful;
    plan.afterCut = &kReuseAfterCutFaithful;
  } else {
    plan.state.keep(&ReusedTopKState::due, Sound::kFlag);
    plan.before = &kReuseBefore;
    plan.afterPass = &kReuseTakeLargest;
    plan.afterCut = &kReuseAfterCut;
  }
  WindowPlan window;
  window.end = request.n;
  window.room = plan.capacity;
  window.slots = std::min(request.n, 3 * plan.capacity + 16384);
  plan.windows.push_back(window);
  return plan;
}

constexpr const char* kPaper = "Li and Hoefler 2022 (Ok-Topk), arXiv:2201.07598";

}  // namespace

constinit extern const SelectorRow kReusedTopKRow = {
    .id = sparsecollSelectReusedTopK,
    .name = "reused_topk",
    .paper = kPaper,
    .plan = planReusedTopK,
    .collective = sparsecollCollAllGather,
    .bound = {1, 20},
    .faithfulBound = {1, 20},
};

}  // namespace sparsecoll
