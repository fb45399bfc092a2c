// Keys of exact selections: the last k-th magnitude, lowered a little. What reaches the key in the pass becomes a
// candidate. A key just below the next k-th magnitude leaves few candidates to cut; one above it makes the step read
// the window again. So it stays as far below as that magnitude has lately moved between steps, and some more.
#pragma once

#include <algorithm>
#include <cmath>

#include "core/control.h"
#include "core/math.h"
#include "core/numeric.h"
#include "core/portable.h"

namespace sparsecoll {

inline constexpr double kMostSpread = 0.3;

// The smallest magnitude that the window kept.
SC_BOTH inline double keptMagnitude(const Window& window, bool isDouble) {
  return thresholdOfKey(std::min<uint64_t>(window.keptKey, infinityKey(isDouble) - 1), isDouble);
}

// forget: the share of the spread that outlives a step.
SC_BOTH inline void noteKept(Window& window, double kept, double leastSpread, double forget) {
  double spread = window.spread * forget;
  if (window.keptBefore > 0 && kept > 0) spread = std::max(spread, std::abs(kept / window.keptBefore - 1));
  window.spread = clamped(spread, leastSpread, kMostSpread);
  window.keptBefore = kept;
}

inline constexpr double kUsualSafety = 1.5;

SC_BOTH inline uint64_t keyBelow(const Window& window, bool isDouble, double safety = kUsualSafety) {
  const uint64_t key = keyOfThreshold((1 - safety * window.spread) * window.keptBefore, isDouble);
  return std::max<uint64_t>(key, 1);  // 0 would make every zero a candidate
}

}  // namespace sparsecoll
