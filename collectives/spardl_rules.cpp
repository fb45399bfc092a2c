#include <algorithm>
#include <cmath>

#include "collectives/rules.h"
#include "collectives/team_share.h"
#include "core/list_span.h"
#include "core/search.h"

namespace sparsecoll {

namespace {

SC_BOTH SparDLState& sparDLState(Control& control) { return control.collective.as<SparDLState>(); }

SC_BOTH TeamShare shareIn(const SparDLState& state) { return {state.entries, state.step, state.confirmed}; }

SC_BOTH void putShare(SparDLState& state, const TeamShare& share) {
  state.entries = share.entries;
  state.step = share.step;
  state.confirmed = share.confirmed;
}

// The control block's own window: the block that this position owns.
SC_BOTH Window& ownWindow(Control& control) {
  return control.windows[control.rank % (control.ranks / sparDLState(control).teams)];
}

// For the own block's selection the share is the limit. It starts anew when another density is wanted.
SC_BOTH void takeTeamShare(Control& control) {
  SparDLState& state = sparDLState(control);
  Window& window = ownWindow(control);
  const auto wanted = static_cast<double>(window.limit);
  if (state.wanted != wanted) {
    putShare(state, firstShare(wanted, state.teams));
    state.wanted = wanted;
  }
  const double most = std::max(state.entries, 1.0);
  if (most < wanted) window.limit = static_cast<uint64_t>(most);
  control.announced = static_cast<double>(window.limit);  // packets of equal length are what the teams exchange
}

SC_BOTH void putBackLimit(Control& control) {
  ownWindow(control).limit = static_cast<uint64_t>(sparDLState(control).wanted);
}

template <bool kFreezes>
SC_BOTH void moveShare(Control& control) {
  SparDLState& state = sparDLState(control);
  putShare(state, nextShare(shareIn(state), state.merged, state.wanted, state.teams, kFreezes));
}

// No block has more entries than the round has room for: numbers has a place a block. The windows are the blocks.
SC_BOTH void checkCounts(const ListRuleArgs& args, const Share& share) {
  const ListSpan<float> list = spanOf<float>(args.from);  // only indices are looked at, so any type will do
  if (list.indices == nullptr) return;
  for (uint64_t b = share.first; b < args.control->windowCount; b += share.step) {
    const Window& block = args.control->windows[b];
    const auto entriesBelow = [&](uint64_t index) { return firstNotBelow(list.indices, 0, list.count, index); };
    const uint64_t entries = entriesBelow(block.end) - (b != 0 ? entriesBelow(block.begin) : 0);
    if (entries > args.numbers[b]) share.refuse(Found::kOwners, entries, args.numbers[b]);
  }
}

}  // namespace

constinit const ListRule kSparDLCheckCounts = listRuleOf<checkCounts>("spardl-check");
constinit const Rule kSparDLTakeShare = ruleOf<takeTeamShare>("spardl-share");
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
  // At an end of what is possible a step would double without end: a longer one than this says nothing more.
  next.step = std::min(std::max(next.step, -wanted), wanted);
  if (next.step == 0 && !freezes) next.step = merged > wanted ? -1 : 1;
  const double entries = share.entries + next.step;
  // Published code has no upper end, although no block gives more than it has.
  next.entries = std::min(std::max(entries, std::floor(wanted / teams)), wanted);
  return next;
}

}  // namespace sparsecoll
