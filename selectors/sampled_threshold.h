// Thresholds from a sample of the magnitudes, as the rules of the methods that have them see it (closed_loop.h).
#pragma once

#include <algorithm>

#include "core/numeric.h"
#include "selectors/magnitudes.h"

namespace sparsecoll {

// What these methods keep; the first member of the state of those that keep more.
struct ClosedLoop {
  double correction;   // of the share that is asked for; 0: none yet
  uint64_t foundNone;  // 1: the last step found nothing
};

namespace detail {

inline SC_BOTH double correctionOf(const Control& control) {
  const double correction = control.selector.as<ClosedLoop>().correction;
  return correction == 0 ? 1 : correction;
}

// Entries of one magnitude all lie at one place of a bin of the histogram, and a threshold from inside the bin, or from
// its upper end, may exceed them for ever.
inline SC_BOTH uint64_t lowerEndOfBin(uint64_t key, bool isDouble) {
  const uint32_t bits = isDouble ? 47 : 18;  // of a key inside a bin
  return key > 1 ? std::max<uint64_t>((key - 1) >> bits << bits, 1) : key;
}

}  // namespace detail

// Entries of at least the threshold travel; nothing does if it is not a positive number.
inline SC_BOTH void setThreshold(Control& control, double threshold) {
  const bool isDouble = control.isDouble != 0;
  const bool usable = threshold > 0 && isFinite(threshold) && control.k != 0;
  uint64_t key = usable ? keyOfThreshold(threshold, isDouble) : infinityKey(isDouble);
  if (usable && control.selector.as<ClosedLoop>().foundNone != 0) {
    key = detail::lowerEndOfBin(key, isDouble);
    threshold = thresholdOfKey(key, isDouble);
  }
  control.threshold = usable ? threshold : 0;
  control.windows[0].key = key;
}

// k / n, and the same times the correction, which every cut multiplies by clamp(k / found, 1/2, 2)^(1/2).
inline SC_BOTH double shareWanted(const Control& control) {
  return static_cast<double>(control.k) / static_cast<double>(control.n);
}
inline SC_BOTH double requestedShare(const Control& control) {
  const double share = shareWanted(control);
  return std::min(share * detail::correctionOf(control), 0.5 * (1 + share));
}

}  // namespace sparsecoll
