// Random numbers by position: entry i of a stream is the same whoever asks for it, in whatever order.
#pragma once

#include <cstdint>

namespace bench {

// The finaliser of SplitMix64 (Steele, Lea and Flood 2014).
inline uint64_t mixBits(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

inline uint64_t randomAt(uint64_t stream, uint64_t i) { return mixBits(stream ^ mixBits(i)); }

// In [0, 1).
inline double unit(uint64_t random) { return static_cast<double>(random >> 11) * 0x1p-53; }

}  // namespace bench
