// Ok-Topk's local selection (Li and Hoefler, PPoPP 2022): the smallest magnitude of an exact top k is the threshold of
// the steps that follow.
//
// Faithful: every 32 steps are exact. In between the threshold rises by 3 % up to five times while more than 4 k / 3
// entries exceed it, and moves by 1.2 % where fewer than 2 k / 3 or more than 5 k / 4 of them were sent. Default: the
// threshold stays a little below the last k-th magnitude. Where k entries or more pass, the k largest of them travel,
// and their smallest is the next one: an exact step for nothing. Where fewer pass it sinks with their number; should a
// tenth of k be missing, the next step reads the vector for an exact top k.
#include "selectors/reused_topk.h"

#include <algorithm>

#include "selectors/rules.h"
#include "selectors/selectors.h"
#include "selectors/swept.h"

namespace sparsecoll {

namespace {

constexpr uint64_t kRoomFaithful = 32;  // where gradients grow the threshold comes after

Result<SelectionPlan> planReusedTopK(const SelectionRequest& request) {
  if (request.faithful()) {
    SelectionPlan plan = planSwept(request, kReuseFaithful, kRoomFaithful);
    plan.afterCut = &kReuseAfterCutFaithful;
    return plan;
  }
  const Wanted wanted = wantedOf(request);
  SelectionPlan plan;
  plan.k = wanted.now;
  plan.mostEntries = wanted.most;
  plan.capacity = wanted.most;
  plan.state.keep(&ReusedTopKState::due, Sound::kFlag);
  plan.before = &kReuseBefore;
  plan.afterPass = &kReuseTakeLargest;
  plan.afterCut = &kReuseAfterCut;
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
    .faithfulBound = {1, 1200},
};

}  // namespace sparsecoll
