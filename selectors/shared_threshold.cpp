#include "selectors/shared_threshold.h"

#include <algorithm>
#include <cmath>

#include "selectors/ladder.h"
#include "selectors/rules.h"

namespace sparsecoll {

void planSharedThreshold(const SelectionRequest& request, double roomShare, uint64_t longest, SelectionPlan& plan) {
  const Wanted wanted = wantedOf(request);
  plan.k = wanted.now;
  plan.mostEntries = wanted.most;
  plan.boundsMove = true;
  WindowPlan window;
  window.exact = false;
  if (request.faithful()) {
    plan.threshold = firstThreshold(request.params.threshold, wanted.now);
    plan.capacity = longest;
    window.slots = longest;
  } else {
    const double room = std::ceil(roomShare * static_cast<double>(wanted.most) / static_cast<double>(request.ranks));
    plan.threshold = request.params.threshold;
    plan.capacity = std::min(longest, static_cast<uint64_t>(room));
    window.slots = std::min(longest, 2 * plan.capacity + 256);
    plan.trials = plan.state.table(&LadderState::trials, kTrials);
    plan.survey = {SurveyKind::kLadder, kLadderRow,
                   plan.state.table(&LadderState::counts, static_cast<uint64_t>(request.ranks) * kLadderRow)};
    plan.afterSurvey = &kReadLadder;
    plan.afterCut = &kTellShare;
    plan.state.keep(&LadderState::lowest, Sound::kMagnitude);
    plan.state.keep(&LadderState::factor, Sound::kMagnitude);
    plan.state.keep(&LadderState::last, Sound::kMagnitude);
    plan.state.keep(&LadderState::high, Sound::kMagnitude);
    plan.state.keep(&LadderState::spread, Sound::kShare);
    plan.state.keep(&LadderState::side, Sound::kSide);
  }
  window.room = plan.capacity;
  plan.windows.push_back(window);
}

}  // namespace sparsecoll
