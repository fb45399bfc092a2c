#include "cuda/stretches.h"

#include "core/list_span.h"
#include "cuda/device_workspace.h"
#include "cuda/scan.h"
#include "cuda/table.h"

namespace sparsecoll::cuda {

namespace {

constexpr uint32_t kNarrowGap = 4;  // stretches without entries that one thread steps over itself

struct LocateTables {
  LocatedList* located;
  uint32_t* offsets;
  ListTurn* turn;
  Finding* finding;
  uint32_t firstList;
  uint32_t isLast;
};

// offsets[from, to) = value, in every lane another stretch. The lanes of a warp come together.
__device__ inline void fillGap(uint32_t* offsets, uint32_t from, uint32_t to, uint32_t value) {
  const bool wide = to > from + kNarrowGap;
  if (!wide)
    for (uint32_t s = from; s < to; ++s) offsets[s] = value;
  for (uint32_t left = __ballot_sync(kAllLanes, wide); left != 0; left &= left - 1) {
    const int lane = __ffs(static_cast<int>(left)) - 1;
    const uint32_t begin = __shfl_sync(kAllLanes, from, lane);
    const uint32_t end = __shfl_sync(kAllLanes, to, lane);
    const uint32_t filling = __shfl_sync(kAllLanes, value, lane);
    for (uint32_t s = begin + laneIndex(); s < end; s += kWarp) offsets[s] = filling;
  }
}

// Threads share the list; thread and threads number those that do.
template <class A>
__device__ inline bool locateRun(const LocatedList& run, const Stretches& at, uint32_t* offsets, uint64_t thread,
                                 uint64_t threads) {
  for (uint64_t s = thread; s <= at.count; s += threads) {
    const uint64_t low = s << at.shift;
    const uint64_t before = low > run.first ? low - run.first : 0;
    offsets[s] = before < run.count ? static_cast<uint32_t>(before) : run.count;
  }
  return run.first <= at.length && run.count <= at.length - run.first;
}

template <class Index>
__device__ inline bool locateEntries(const Index* indices, uint32_t count, const Stretches& at, uint32_t* offsets,
                                     uint64_t thread, uint64_t threads, const LocateTables& tables, uint32_t list) {
  const auto stretchOf = [&](Index index) {
    const uint64_t stretch = (static_cast<uint64_t>(index) - at.base) >> at.shift;
    return stretch < at.count ? static_cast<uint32_t>(stretch) : at.count;
  };
  // The stretches before the first and behind the last entry are everybody's; they may be most of them.
  const uint32_t head = count != 0 ? stretchOf(indices[0]) : at.count;
  const uint32_t tail = count != 0 ? stretchOf(indices[count - 1]) : 0;
  for (uint64_t s = thread; s <= at.count; s += threads) {
    if (s <= head)
      offsets[s] = 0;
    else if (s > tail)
      offsets[s] = count;
  }
  bool fine = true;
  for (uint64_t begin = thread - threadIdx.x; begin < count; begin += threads) {
    const uint64_t i = begin + threadIdx.x;
    uint32_t from = 0;
    uint32_t to = 0;
    if (i < count) {
      const Index index = indices[i];
      const Index before = i != 0 ? indices[i - 1] : Index{0};
      const bool inside = static_cast<uint64_t>(index) - at.base < at.length;
      const bool above = i == 0 || index > before;
      if (!inside)
        report(tables.finding, sparsecollCorrupted, static_cast<int32_t>(list), Found::kIndex, index,
               at.base + at.length);
      else if (!above)
        report(tables.finding, sparsecollCorrupted, static_cast<int32_t>(list), Found::kOrder, i);
      fine = fine && inside && above;
      if (fine && i != 0) {
        from = stretchOf(before) + 1;
        to = stretchOf(index) + 1;
      }
    }
    fillGap(offsets, from, to, static_cast<uint32_t>(i));
  }
  return fine;
}

// One block at the end: the lists may be read, or not; and what the sum becomes.
__device__ inline void conclude(const LocatedList* located, uint32_t lists, const RunRule& rule, ListTurn* turn) {
  if (threadIdx.x != 0) return;
  turn->sound = turn->unsound == 0 ? 1 : 0;
  turn->unsound = 0;
  turn->dense = 0;
  if (rule.header == nullptr) return;
  uint64_t entries = 0;
  bool anyRun = false;
  for (uint32_t l = 0; turn->sound != 0 && l < lists; ++l) {
    entries += located[l].count;
    anyRun = anyRun || located[l].indices == nullptr;
  }
  turn->dense = anyRun || entries >= rule.denseFrom ? 1 : 0;
  rule.header->flags = turn->dense != 0 ? kFrameDense : 0;
}

template <class A, class Index, uint32_t kMost>
__global__ void __launch_bounds__(kThreads)
    locateLists(Table<ListView, kMost> views, Stretches at, RunRule rule, LocateTables tables) {
  bool fine = soundForAll(tables.finding);
  if (fine && views.count != 0) {
    // The grid is a multiple of the lists.
    const uint32_t l = blockIdx.x % views.count;
    const uint32_t list = tables.firstList + l;
    const uint64_t thread = uint64_t{blockIdx.x / views.count} * blockDim.x + threadIdx.x;
    const uint64_t threads = uint64_t{gridDim.x / views.count} * blockDim.x;
    const ListSpan<A, Index> span = spanOf<A, Index>(views.items[l]);
    // A run that is to become part of one starts where that does.
    const uint64_t first = rule.header != nullptr ? 0 : views.items[l].first - at.base;
    const LocatedList located{span.indices, span.values, first, span.count};
    if (thread == 0) tables.located[list] = located;
    uint32_t* const offsets = tables.offsets + uint64_t{list} * (at.count + 1);
    if (span.indices != nullptr) {
      fine = locateEntries(span.indices, span.count, at, offsets, thread, threads, tables, list);
    } else {
      fine = locateRun<A>(located, at, offsets, thread, threads);
      if (!fine)
        report(tables.finding, sparsecollCorrupted, static_cast<int32_t>(list), Found::kIndex,
               at.base + first + span.count, at.base + at.length);
    }
  }
  if (__syncthreads_or(fine ? 0 : 1) != 0 && threadIdx.x == 0) atomicOr(&tables.turn->unsound, 1u);
  if (lastOf(tables.turn->done, gridDim.x) && tables.isLast != 0)
    conclude(tables.located, tables.firstList + views.count, rule, tables.turn);
}

}  // namespace

const ListSpace* spaceFor(const char* name, uint64_t lists, DeviceContext& device, Stream stream) {
  if (stream.workspace != nullptr && workspaceOf(stream).lists().lists >= lists) return &workspaceOf(stream).lists();
  device.note(name, lists, cudaErrorInvalidValue);
  return nullptr;
}

template <class A, class Index>
Stretches locate(std::span<const ListView> lists, const IndexRange& range, const RunRule& rule, const ListSpace& space,
                 DeviceContext& device, Stream stream) {
  Stretches at;
  at.base = range.base;
  at.length = range.length;
  at.shift = kRangeShift<A>;
  if (range.length != 0) {
    while (((range.length - 1) >> at.shift) + 1 > space.stretches) ++at.shift;
    at.count = static_cast<uint32_t>(((range.length - 1) >> at.shift) + 1);
  }
  at.lists = static_cast<uint32_t>(lists.size());
  at.located = space.located;
  at.offsets = space.offsets;
  at.turn = space.turn;
  withTables(lists, [&]<uint32_t kMost>(const Table<ListView, kMost>& views, uint32_t first, bool isLast) {
    const uint64_t each = std::max<uint64_t>(1, views.count);
    Grid grid = device.gridFor(std::max(space.entries, at.count * each), 4 * kThreads);
    grid.blocks = std::max<uint64_t>(1, grid.blocks / each) * each;
    const LocateTables tables{space.located, space.offsets, space.turn, device.finding(), first, isLast ? 1u : 0u};
    device.launch<locateLists<A, Index, kMost>>("locate", range.length, grid, stream, views, at, rule, tables);
  });
  return at;
}

template Stretches locate<float, uint32_t>(std::span<const ListView>, const IndexRange&, const RunRule&,
                                           const ListSpace&, DeviceContext&, Stream);
template Stretches locate<double, uint32_t>(std::span<const ListView>, const IndexRange&, const RunRule&,
                                            const ListSpace&, DeviceContext&, Stream);
template Stretches locate<float, uint64_t>(std::span<const ListView>, const IndexRange&, const RunRule&,
                                           const ListSpace&, DeviceContext&, Stream);
template Stretches locate<double, uint64_t>(std::span<const ListView>, const IndexRange&, const RunRule&,
                                            const ListSpace&, DeviceContext&, Stream);

}  // namespace sparsecoll::cuda
