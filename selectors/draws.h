// Draws without a permutation: one place out of each of k equal stretches (strata) of n, so that the places are
// distinct and in order.
#pragma once

#include <cstdint>

#include "core/list_rule.h"
#include "core/random.h"

namespace sparsecoll {

// Of what this rank draws in this step.
SC_BOTH inline uint64_t drawSeed(const Control& control) { return mixBits(control.seed + control.iteration); }

// The stretches that are a thread's share of the work, one after the other. Stretch j begins at place j * n / k: a
// division for each of them would cost more than the rest.
class Strata {
 public:
  SC_BOTH Strata(uint64_t n, uint64_t k, const Share& share)
      : k_(k),
        length_(n / k),
        longer_(n % k),
        index_(share.first),
        begin_(share.first * length_ + share.first * longer_ / k),
        remainder_(share.first * longer_ % k),
        indexStep_(share.step),
        beginStep_(share.step * length_ + share.step * longer_ / k),
        remainderStep_(share.step * longer_ % k) {}

  SC_BOTH bool left() const { return index_ < k_; }
  SC_BOTH uint64_t index() const { return index_; }
  // One place of the stretch, by chance.
  SC_BOTH uint64_t draw(uint64_t seed) const {
    const uint64_t length = length_ + (remainder_ + longer_ >= k_ ? 1 : 0);
    return begin_ + drawBelow(length, seed + index_);
  }
  SC_BOTH void next() {
    index_ += indexStep_;
    begin_ += beginStep_;
    remainder_ += remainderStep_;
    if (remainder_ < k_) return;
    remainder_ -= k_;
    ++begin_;
  }

 private:
  uint64_t k_;
  uint64_t length_;     // at least,
  uint64_t longer_;     // and so many of the k have one place more
  uint64_t index_;      // j
  uint64_t begin_;      // j * n / k
  uint64_t remainder_;  // j * n % k
  uint64_t indexStep_, beginStep_, remainderStep_;
};

}  // namespace sparsecoll
