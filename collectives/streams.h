// Streams: sums of lists that are lists as long as that is shorter, and runs of values from then on (SparCML).
#pragma once

#include "collectives/collective.h"

namespace sparsecoll {

// When a stream becomes a run: at length / divisor entries.
struct DenseSwitch {
  uint64_t divisor;
  constexpr uint64_t from(uint64_t length) const { return (length + divisor - 1) / divisor; }
};
// An entry takes two words, an element of a run one (SparCML, section 5.1).
inline constexpr DenseSwitch kSparCMLSwitch = {2};
// 2 words an entry against two thirds of the dense ones (the published TopkDSA's rule).
inline constexpr DenseSwitch kTopkDSASwitch = {3};

// Frames of streams with at most `entries` entries over `length` elements.
inline FrameLayout streamLayout(const DenseSwitch& rule, uint64_t entries, uint64_t length, sparsecollDataType_t type) {
  FrameLayout layout;
  layout.indexBytes = 4;
  layout.valueBytes = static_cast<uint32_t>(elementBytes(type));
  layout.capacity = std::min(entries, length);
  if (entries >= rule.from(length)) layout.denseCount = length;
  return layout;
}

}  // namespace sparsecoll
