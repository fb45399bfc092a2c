// Chance that is the same everywhere: a well mixed function of a counter.
#pragma once

#include <cstdint>

#include "core/portable.h"

namespace sparsecoll {

// The finaliser of SplitMix64 (Steele, Lea and Flood 2014).
SC_HD inline uint64_t mixBits(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// One of the numbers below `end`, which is at most 2^32.
SC_HD inline uint64_t drawBelow(uint64_t end, uint64_t seed) { return (mixBits(seed) >> 32) * end >> 32; }

}  // namespace sparsecoll
