#include <algorithm>
#include <cmath>
#include <iterator>

#include "collectives/rules.h"
#include "collectives/team_share.h"

namespace sparsecoll {

namespace {

// The control block's own window: the block that this position owns.
SC_BOTH Window& ownWindow(Control& control) { return control.windows[control.rank % (control.ranks / control.teams)]; }

SC_BOTH TeamShare shareIn(const Control& control) {
  return {control.teamShare[0], control.teamShare[1], control.teamShare[2]};
}

SC_BOTH void putShare(Control& control, const TeamShare& share, double wanted) {
  const double fields[] = {share.entries, share.step, share.confirmed, wanted};
  std::copy(std::begin(fields), std::end(fields), control.teamShare);
}

// For the own block's selection the share is the limit. It starts anew when another density is wanted.
SC_BOTH void takeShare(Control& control) {
  Window& window = ownWindow(control);
  const auto wanted = static_cast<double>(window.limit);
  if (control.teamShare[3] != wanted) putShare(control, firstShare(wanted, control.teams), wanted);
  const double most = std::max(control.teamShare[0], 1.0);
  if (most < wanted) window.limit = static_cast<uint64_t>(most);
  control.told = static_cast<double>(window.limit);  // packets of equal length are what the teams exchange
}

SC_BOTH void putBackLimit(Control& control) { ownWindow(control).limit = static_cast<uint64_t>(control.teamShare[3]); }

template <bool kFreezes>
SC_BOTH void moveShare(Control& control) {
  const double wanted = control.teamShare[3];
  putShare(control, nextShare(shareIn(control), control.merged, wanted, control.teams, kFreezes), wanted);
}

}  // namespace

constinit const Rule kSparDLTakeShare = ruleOf<takeShare>("spardl-share");
constinit const Rule kSparDLPutBackLimit = ruleOf<putBackLimit>("spardl-limit");
constinit const Rule kSparDLMoveShare = ruleOf<moveShare<false>>("spardl-move");
constinit const Rule kSparDLMoveShareAsPublished = ruleOf<moveShare<true>>("spardl-faithful-move");

SC_BOTH TeamShare firstShare(double wanted, double teams) {
  const double entries = std::floor(wanted / teams);
  return {entries, std::trunc((wanted - entries) / 100), 0};
}

SC_BOTH TeamShare nextShare(const TeamShare& share, double merged, double wanted, double teams, bool freezes) {
  TeamShare next = share;
  const bool right = merged > wanted ? share.step <= 0 : share.step > 0;
  if (right && share.confirmed != 0) {
    next.step *= 2;
    next.confirmed = 0;
  } else if (right) {
    next.confirmed = 1;
  } else {
    next.step = std::abs(share.step) > 1 ? std::trunc(-share.step / 2) : -share.step;
    next.confirmed = 0;
  }
  if (next.step == 0 && !freezes) next.step = merged > wanted ? -1 : 1;
  const double entries = share.entries + next.step;
  // Published code has no upper end, although no block gives more than it has.
  next.entries = std::min(std::max(entries, std::floor(wanted / teams)), wanted);
  return next;
}

}  // namespace sparsecoll
