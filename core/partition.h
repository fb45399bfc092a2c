// How vectors are cut into parts that ranks own.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/portable.h"

namespace sparsecoll {

struct Range {
  uint64_t begin = 0;
  uint64_t end = 0;
  SC_HD uint64_t length() const { return end - begin; }
};

// Parts differ by at most one element; the first n mod parts are the longer ones (MiCRO, section 2 of its code).
SC_HD inline Range evenPart(uint64_t n, uint64_t parts, uint64_t part) {
  const uint64_t length = n / parts;
  const uint64_t longer = n % parts;
  const uint64_t begin = part * length + (part < longer ? part : longer);
  return {begin, begin + length + (part < longer ? 1 : 0)};
}

// Blocks of ceil(n / blocks) elements; the last ones are shorter or empty (SparDL).
SC_HD inline Range blockOf(uint64_t n, uint64_t blocks, uint64_t block) {
  const uint64_t length = (n + blocks - 1) / blocks;
  const uint64_t begin = block * length < n ? block * length : n;
  return {begin, begin + length < n ? begin + length : n};
}

constexpr uint32_t ceilLog2(uint64_t x) {
  uint32_t bits = 0;
  while ((uint64_t{1} << bits) < x) ++bits;
  return bits;
}

}  // namespace sparsecoll
