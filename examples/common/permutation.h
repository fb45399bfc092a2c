// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "examples/common/random.h"

namespace examples {

/// A random order of 0 to count - 1 in constant memory: a Feistel network over the next power of four, walked until it
/// comes back into the range (Black and Rogaway 2002). Equal arguments give equal orders.
class Permutation {
 public:
  /// 0 < count <= 2^62.
  Permutation(uint64_t count, uint64_t seed, uint64_t key) : count_(count) {
    Random random(seed, 7, key);
    for (auto& round : rounds_) round = random.next();
    while (halfBits_ < 31 && (uint64_t{1} << (2 * halfBits_)) < count_) ++halfBits_;
  }

  uint64_t operator()(uint64_t index) const {
    do index = scramble(index);
    while (index >= count_);
    return index;
  }

 private:
  uint64_t scramble(uint64_t value) const {
    const uint64_t mask = (uint64_t{1} << halfBits_) - 1;
    uint64_t left = value >> halfBits_, right = value & mask;
    for (const uint64_t round : rounds_) {
      const uint64_t mixed = left ^ (Random(round ^ right).next() & mask);
      left = right;
      right = mixed;
    }
    return (left << halfBits_) | right;
  }

  uint64_t count_;
  uint64_t rounds_[6];
  unsigned halfBits_ = 1;
};

}  // namespace examples
