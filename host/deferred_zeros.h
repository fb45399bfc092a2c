// Bits of entries that count as 0, whatever memory holds there (Kernels::defersZeros). Internal linkage, like scalar.h.
#pragma once

#include <cstdint>

namespace sparsecoll::host {
namespace {

// Of 64 entries from `at` on. Reads the word behind theirs, too.
[[maybe_unused]] inline uint64_t deferredFrom(const uint64_t* bits, uint64_t at) {
  const uint64_t* const word = bits + at / 64;
  const uint64_t shift = at % 64;
  return word[0] >> shift | word[1] << 1 << (63 - shift);
}

[[maybe_unused]] inline bool isDeferred(const uint64_t* bits, uint64_t at) {
  return (bits[at / 64] >> at % 64 & 1) != 0;
}

[[maybe_unused]] inline void deferZero(uint64_t* bits, uint64_t at) { bits[at / 64] |= uint64_t{1} << at % 64; }

[[maybe_unused]] inline void undeferZero(uint64_t* bits, uint64_t at) { bits[at / 64] &= ~(uint64_t{1} << at % 64); }

}  // namespace
}  // namespace sparsecoll::host
