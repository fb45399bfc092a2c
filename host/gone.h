// Bits of entries that count as 0, whatever memory holds there (Kernels::keepsGone). Internal linkage, like scalar.h.
#pragma once

#include <cstdint>

namespace sparsecoll::host {
namespace {

// Of 64 entries from `at` on. Reads the word behind theirs, too.
[[maybe_unused]] inline uint64_t goneFrom(const uint64_t* gone, uint64_t at) {
  const uint64_t* const word = gone + at / 64;
  const uint64_t shift = at % 64;
  return word[0] >> shift | word[1] << 1 << (63 - shift);
}

[[maybe_unused]] inline bool isGone(const uint64_t* gone, uint64_t at) { return (gone[at / 64] >> at % 64 & 1) != 0; }

[[maybe_unused]] inline void setGone(uint64_t* gone, uint64_t at) { gone[at / 64] |= uint64_t{1} << at % 64; }

[[maybe_unused]] inline void unsetGone(uint64_t* gone, uint64_t at) { gone[at / 64] &= ~(uint64_t{1} << at % 64); }

}  // namespace
}  // namespace sparsecoll::host
