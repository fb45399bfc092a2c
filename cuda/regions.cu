// Checks and counts of lists that are in order: where a range of indices begins is found by halving, so that no kernel
// here reads more than it must. A list is looked at only while nothing is wrong: then its count has been checked.
#include "core/list_span.h"
#include "core/search.h"
#include "cuda/block.h"
#include "cuda/frames.h"
#include "cuda/table.h"

namespace sparsecoll::cuda {

namespace {

// Only indices are looked at here, so any value type will do.
__device__ ListSpan<float> indicesOf(const ListView& list) { return spanOf<float>(list); }

// Entries below index.
__device__ uint32_t entriesBelow(const ListSpan<float>& list, uint64_t index) {
  return firstNotBelow(list.indices, 0, list.count, index);
}

// The same where the list may be a run that begins at `first`.
__device__ uint32_t entriesBelow(const ListSpan<float>& list, uint64_t first, uint64_t index) {
  if (list.indices != nullptr) return entriesBelow(list, index);
  const uint64_t below = index > first ? index - first : 0;
  return below < list.count ? static_cast<uint32_t>(below) : list.count;
}

__global__ void __launch_bounds__(kThreads) checkIndices(ListView view, uint64_t n, Finding* finding) {
  if (!sound(finding)) return;
  if (*view.count % view.parts != 0) {
    if (globalThread() == 0) report(finding, sparsecollCorrupted, -1, Found::kParts, *view.count, view.parts);
    return;
  }
  const ListSpan<float> list = indicesOf(view);
  if (list.indices == nullptr) {
    if (globalThread() == 0 && view.first + list.count > n)
      report(finding, sparsecollCorrupted, -1, Found::kIndex, view.first + list.count, n);
    return;
  }
  for (uint64_t i = globalThread(); i < list.count; i += globalThreads()) {
    const uint32_t index = list.indices[i];
    if (index >= n) report(finding, sparsecollCorrupted, -1, Found::kIndex, index, n);
    if (i != 0 && index <= list.indices[i - 1]) report(finding, sparsecollCorrupted, -1, Found::kOrder, i);
  }
}

struct CountRoom {
  BlockSums<uint64_t> sums;
  uint32_t largest;
};

// The sum and the largest of the threads' numbers, for every one of them. Ends with a barrier.
struct SumAndLargest {
  uint64_t sum;
  uint32_t largest;
};
__device__ SumAndLargest sumAndLargest(uint64_t sum, uint32_t largest, CountRoom& room) {
  if (threadIdx.x == 0) room.largest = 0;
  __syncthreads();
  if (largest != 0) atomicMax(&room.largest, largest);
  const uint64_t total = blockSum(sum, room.sums).total;
  return {total, room.largest};
}

struct BlockRule {
  uint64_t n;
  uint64_t length;
  uint32_t blocks;
  uint32_t goesOn;  // 1: an earlier launch has counted other lists of the call
};

template <uint32_t kMost>
__global__ void __launch_bounds__(kThreads)
    countByBlock(Table<ListView, kMost> lists, BlockRule rule, uint32_t* counts, Finding* finding) {
  if (!sound(finding)) return;
  for (uint64_t b = globalThread(); b < rule.blocks; b += globalThreads()) {
    const uint64_t begin = b * rule.length;
    const uint64_t end = b + 1 == rule.blocks ? rule.n : begin + rule.length;  // the last block also has the rest
    uint32_t count = rule.goesOn != 0 ? counts[b] : 0;
    for (uint32_t l = 0; l < lists.count; ++l) {
      const ListView& view = lists.items[l];
      const ListSpan<float> list = indicesOf(view);
      count += entriesBelow(list, view.first, end) - entriesBelow(list, view.first, begin);
      if (b != 0 || list.count == 0) continue;
      const uint64_t last = list.indices != nullptr ? list.indices[list.count - 1] : view.first + list.count - 1;
      if (last >= rule.n) report(finding, sparsecollCorrupted, -1, Found::kIndex, last, rule.n);
    }
    counts[b] = count;
  }
}

__global__ void __launch_bounds__(kThreads)
    tallyOwners(ListView view, const uint64_t* bounds, uint32_t owners, Control* control, const Finding* finding) {
  __shared__ CountRoom room;
  if (!soundForAll(finding)) return;
  const ListSpan<float> sum = indicesOf(view);
  uint32_t largest = owners == 0 ? (sum.count + control->ranks - 1) / control->ranks : 0;
  for (uint64_t r = threadIdx.x; r < owners; r += blockDim.x) {
    const uint32_t below = r != 0 ? entriesBelow(sum, view.first, bounds[r]) : 0;
    const uint32_t count = entriesBelow(sum, view.first, bounds[r + 1]) - below;
    control->facts[r].count = count;
    control->facts[r].threshold = 0;
    largest = count > largest ? count : largest;
  }
  const SumAndLargest all = sumAndLargest(0, largest, room);
  if (threadIdx.x != 0) return;
  control->delivered = sum.count;
  // As if there were as many owners as ranks: teams own a block together.
  control->largest = owners == 0 ? all.largest : static_cast<uint32_t>(uint64_t{all.largest} * owners / control->ranks);
}

constexpr Grid kOneBlock = {1, kThreads, 0};

}  // namespace

void checkOrder(const ListView& list, uint64_t n, DeviceContext& device, Stream stream) {
  constexpr uint64_t kElementsAThread = 32;  // a list is rarely longer than a few per cent of the vector
  device.launch<checkIndices>("checkOrder", n, device.gridFor(n, kThreads * kElementsAThread), stream, list, n,
                              device.finding());
}

void countBlocks(const BlockCountArgs& args, DeviceContext& device, Stream stream) {
  constexpr uint64_t kBlocks = 4;  // of threads, for ExDyna's about 1024 blocks of the vector
  withTables(args.lists, [&]<uint32_t kMost>(const Table<ListView, kMost>& table, uint32_t first, bool) {
    const BlockRule rule{args.n, args.length, args.blocks, first != 0 ? 1u : 0u};
    device.launch<countByBlock<kMost>>("countBlocks", args.lists.size(), {kBlocks, kThreads, 0}, stream, table, rule,
                                       args.counts, device.finding());
  });
}

void tally(const ListView& sum, const uint64_t* bounds, uint32_t owners, Control* control, DeviceContext& device,
           Stream stream) {
  device.launch<tallyOwners>("tally", owners, kOneBlock, stream, sum, bounds, owners, control, device.finding());
}

}  // namespace sparsecoll::cuda
