// Touched entries of a tile on vectors: the fused pass's way to write the few elements of a block that matter.
#pragma once

#include "host/pass_vector.h"

namespace sparsecoll::host {
namespace {

// Entries that a block writes without a branch on how many it has.
constexpr uint64_t kUnbranched = 4;

template <class V>
uint64_t collectVector(const TouchedTile<typename V::A>& caller) {
  const TouchedTile<typename V::A> touched = caller;  // a copy: stores to the vectors cannot change it
  PassSpan<typename V::A> span;
  span.indices = touched.offsets;
  span.values = touched.values;
  uint64_t found = 0;
  for (uint64_t block = 0; block < touched.n; block += kBlock) {
    const uint64_t mask = V::takeMarks(touched.marks + block);
    uint64_t left = mask;
#pragma GCC unroll 4
    for (uint64_t slot = 0; slot < kUnbranched; ++slot, left &= left - 1)
      writeOne(span, touched.tile, found + slot, block, left);
    if (left != 0) [[unlikely]]
      compressBlock<V>(span, touched.tile, block, mask, found);
    found += static_cast<uint64_t>(__builtin_popcountll(mask));
#pragma GCC unroll 16
    for (uint64_t j = 0; j < kBlock; j += V::kLanes) V::store(touched.tile + block + j, V::zero());
  }
  return found;
}

}  // namespace
}  // namespace sparsecoll::host
