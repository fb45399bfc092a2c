// The ladder of thresholds that all ranks share (shared_threshold.h), and how the shared threshold moves: the parts of
// the rules of the methods that select by it.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/control.h"
#include "core/crew.h"
#include "core/limits.h"
#include "core/math.h"
#include "core/numeric.h"

namespace sparsecoll {

inline constexpr uint32_t kLadderRow = kTrials + 1;  // counts, then 1 where the candidates were too many for their list

// What the methods that share a threshold keep.
struct LadderState {
  double lowest;  // trial; 0: there is no ladder yet
  double factor;  // from one trial to the next
  // The last threshold. While one is looked for: what it is known to lie between; high is 0 where none is looked for.
  double last;
  double high;
  double spread;     // how far the threshold has lately moved in a step
  double side;       // where it is when the ladder does not show it
  uint64_t* trials;  // kTrials keys, rising
  double* counts;    // a row of kLadderRow a rank: its candidates at the trials
};

namespace ladder {

// How far the ladder reaches below and above the last threshold: as far as that has lately moved, and more.
inline constexpr double kFirstSpread = 0.1;
inline constexpr double kLeastSpread = 0.02;
inline constexpr double kMostSpread = 0.3;
inline constexpr double kForget = 0.9;
inline constexpr double kBelow = 1.5;  // spreads
inline constexpr double kAbove = 4;

// LadderState::side
inline constexpr double kBelowLadder = -1;
inline constexpr double kAboveLowest = 0.5;
inline constexpr double kAboveLadder = 1;

inline SC_BOTH LadderState& of(Control& control) { return control.selector.as<LadderState>(); }

inline SC_BOTH uint64_t keyOf(const Control& control, double threshold) {
  return keyOfThreshold(threshold, control.isDouble != 0);
}

inline SC_BOTH double trial(Control& control, uint32_t j) {
  const LadderState& state = of(control);
  if (state.lowest == 0) return std::numeric_limits<double>::infinity();
  return state.lowest * powOf(state.factor, static_cast<double>(j));
}

inline SC_BOTH void setLadder(Control& control, double low, double high) {
  of(control).lowest = low;
  of(control).factor = std::max(powOf(high / low, 1.0 / (kTrials - 1)), 1.0005);
}

// The common threshold lies between the ranks' smallest magnitudes: at the lowest of them k entries or more pass, at
// the highest k or fewer. Where they are far apart the next ladder starts half way, and what that step finds out halves
// the bracket. Where candidates were too many for their lists, the next ladder reaches half as far, unless all of this
// one was below.
inline SC_BOTH void startLadder(Control& control) {
  double low = 0;
  double high = 0;
  for (uint32_t r = 0; r < control.ranks; ++r) {
    const double announced = control.facts[r].threshold;
    if (!(announced > 0)) continue;
    low = low == 0 ? announced : std::min(low, announced);
    high = std::max(high, announced);
  }
  LadderState& state = of(control);
  if (state.side == kAboveLowest && low > trial(control, kTrials - 1)) state.side = kAboveLadder;
  state.spread = state.side == kAboveLowest && state.spread > 0 ? clamped(state.spread / 2, kLeastSpread, kMostSpread)
                                                                : kFirstSpread;
  double& from = state.last;
  double& to = state.high;
  if (to > 0 && state.lowest > 0) {
    if (state.side == kBelowLadder)
      to = state.lowest;
    else
      from = state.side == kAboveLadder ? trial(control, kTrials - 1) : state.lowest;
    from = std::max(from, low);
    if (from >= to) to = high;  // what is sent has grown since
  }
  if (!(from < to)) {
    from = low;
    to = high;
  }
  if (low == 0)
    state.lowest = 0;
  else if (to < 2 * from)
    setLadder(control, (1 - kBelow * state.spread) * from, (1 + kAbove * state.spread) * to);
  else
    setLadder(control, std::sqrt(from) * std::sqrt(to), (1 + kAbove * state.spread) * to);
}

// The window for a pass that collects from the lowest trial on.
inline SC_BOTH void aim(Control& control) {
  Window& window = control.windows[0];
  const bool isDouble = control.isDouble != 0;
  const LadderState& state = of(control);
  if (state.lowest == 0 && control.threshold > 0)  // the caller's first guess
    setLadder(control, control.threshold / 2, control.threshold * 2);
  window.exact = 0;
  window.limit = control.k == 0 ? 0 : window.room;
  window.key = state.lowest > 0 ? std::max<uint64_t>(keyOf(control, state.lowest), 1) : infinityKey(isDouble);
  window.least = 0;
}

}  // namespace ladder

inline SC_BOTH void climbLadder(Control& control, const Crew& crew) {
  crew.alone([&] { ladder::aim(control); });
  crew.each(kTrials, [&](uint64_t j) {
    ladder::of(control).trials[j] =
        j == 0 ? control.windows[0].key : ladder::keyOf(control, ladder::trial(control, static_cast<uint32_t>(j)));
  });
}

inline SC_BOTH void noteThreshold(Control& control) {
  if (control.k == 0) return;
  if (control.windows[0].exact != 0) return ladder::startLadder(control);
  LadderState& state = ladder::of(control);
  double& spread = state.spread;
  spread *= ladder::kForget;
  if (state.high == 0 && state.last > 0) spread = std::max(spread, std::abs(control.threshold / state.last - 1));
  spread = clamped(spread, ladder::kLeastSpread, ladder::kMostSpread);
  state.high = 0;
  state.last = control.threshold;
  ladder::setLadder(control, (1 - ladder::kBelow * spread) * control.threshold,
                    (1 + ladder::kAbove * spread) * control.threshold);
}

inline SC_BOTH void startFaithful(Control& control) {
  Window& window = control.windows[0];
  window.key = ladder::keyOf(control, control.threshold);
  window.limit = control.k == 0 ? 0 : window.room;
  const bool force = control.k != 0 && window.end > window.begin;
  window.forced = force ? window.begin + control.iteration % (window.end - window.begin) : kNoForcedIndex;
}

inline SC_BOTH void moveFaithful(Control& control) {
  if (control.k == 0) return;
  const double x = static_cast<double>(control.delivered) / static_cast<double>(control.k);
  const double next = control.threshold * (x > 1.1 ? 1.005 : x > 0.909 ? 1.00125 : 0.995);
  // Published code has no ends, from which no factor would lead back.
  const double most = control.isDouble != 0 ? 1e300 : 1e38;
  moveThreshold(control, control.threshold != 0 ? clamped(next, 1 / most, most) : 0);
}

}  // namespace sparsecoll
