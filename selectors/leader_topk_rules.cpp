#include "selectors/candidate_key.h"
#include "selectors/rules.h"

namespace sparsecoll {

namespace {

constexpr double kLeastLeaderSpread = 0.004;
constexpr double kForgetLeader = 0.9;

SC_BOTH void takeLeaderTurn(Control& control) {
  Window& window = control.windows[0];
  const bool isDouble = control.isDouble != 0;
  const bool leads = control.iteration % control.ranks == control.rank;
  window.limit = leads ? control.k : 0;
  window.key = infinityKey(isDouble);
  if (!leads || control.k == 0) return;
  if (control.k >= control.n)
    window.key = 0;
  else if (window.keptBefore > 0)
    window.key = keyBelow(window, isDouble);
}

SC_BOTH void noteKey(Control& control) {
  Window& window = control.windows[0];
  control.threshold = 0;
  if (window.kept == 0) return;
  noteKept(window, keptMagnitude(window, control.isDouble != 0), kLeastLeaderSpread, kForgetLeader);
  control.threshold = window.keptBefore;
}

}  // namespace

constinit const Rule kLeaderTakeTurn = ruleOf<takeLeaderTurn>("leader-turn");
constinit const Rule kLeaderNoteKey = ruleOf<noteKey>("leader-key");

}  // namespace sparsecoll
