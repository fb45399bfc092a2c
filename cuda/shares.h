// Even shares of the work on many windows. A window's work is a number of units, the units of all windows stand in one
// row, and every block takes one stretch of that row: a window with most of the work gets most of the blocks, and a
// grid need not know how many windows there are. Units are fewer than 2^32, and so are the vector's elements.
#pragma once

#include "core/search.h"
#include "cuda/block.h"

namespace sparsecoll::cuda {

// before[i] = the units of the windows before the i-th, before[count] = those of all. One block.
template <class Units>
__device__ inline void layOutUnits(uint32_t* before, uint32_t count, BlockSums<uint32_t>& room, Units units) {
  uint32_t all = 0;
  for (uint32_t row = 0; row < count; row += blockDim.x) {
    const uint32_t i = row + threadIdx.x;
    const BlockSum<uint32_t> sum = blockSum(i < count ? static_cast<uint32_t>(units(i)) : 0, room);
    if (i < count) before[i] = all + sum.below;
    all += sum.total;
  }
  if (threadIdx.x == 0) before[count] = all;
}

// Those units of a window that are in a block's share.
struct SharePart {
  uint32_t window;  // its place in the row
  uint32_t begin;   // counted from the window's first unit on
  uint32_t end;
  uint32_t firstBlock;  // the first one that has units of this window,
  uint32_t blocks;      // and how many have
};

// Calls each(part) for every window in this block's share, in order. least: no block takes fewer units, but for the
// last one. The whole block calls it.
template <class Each>
__device__ inline void forShare(const uint32_t* before, uint32_t count, uint32_t least, Each each) {
  const uint32_t all = before[count];
  const uint32_t even = all / gridDim.x + (all % gridDim.x != 0 ? 1 : 0);
  const uint32_t units = even > least ? even : least;  // of a share
  if (uint64_t{blockIdx.x} * units >= all) return;
  const uint32_t begin = blockIdx.x * units;
  const uint32_t end = all - begin > units ? begin + units : all;
  // Windows without units end where they begin, so that they are passed over.
  for (uint32_t i = firstWhere(0, count, [&](uint32_t w) { return before[w + 1] > begin; }); i < count; ++i) {
    const uint32_t first = before[i];
    const uint32_t last = before[i + 1];
    if (first >= end) return;
    if (first == last) continue;
    const uint32_t firstBlock = first / units;
    each(SharePart{i, begin > first ? begin - first : 0, (end < last ? end : last) - first, firstBlock,
                   (last - 1) / units - firstBlock + 1});
  }
}

}  // namespace sparsecoll::cuda
