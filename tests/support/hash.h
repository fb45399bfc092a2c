// What memory holds, as one number.
#pragma once

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstddef>
#include <cstdint>

namespace sparsecoll::test {

// hash: of what came before.
inline uint64_t hashBytes(const void* data, size_t bytes, uint64_t hash = 1) {
  return XXH3_64bits_withSeed(data, bytes, hash);
}

}  // namespace sparsecoll::test
