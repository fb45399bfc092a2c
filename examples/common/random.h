// SPDX-License-Identifier: Apache-2.0
// A small generator with the same numbers on every platform, unlike the distributions of <random>.
#pragma once

#include <cstdint>

namespace examples {

/// SplitMix64 (Steele, Lea, Flood 2014).
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  /// Streams of different keys are independent.
  Random(uint64_t seed, uint64_t key1, uint64_t key2 = 0) : state_(seed) {
    state_ = next() ^ key1;
    state_ = next() ^ key2;
  }

  uint64_t next() {
    state_ += 0x9e3779b97f4a7c15u;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

  /// In [0, bound), for bound < 2^32.
  uint32_t below(uint32_t bound) { return static_cast<uint32_t>(((next() >> 32) * bound) >> 32); }

 private:
  uint64_t state_;
};

}  // namespace examples
