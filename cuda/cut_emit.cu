// What a cut keeps goes to its places in index order. Of large windows every piece is counted. Blocks add up the counts
// of their own shares; then they have the same shares again, a warp writes a piece, and what stands in the shares
// before comes on top. A small window is one block's work from its boundary to its last entry.
#include "cuda/cut.h"
#include "cuda/descent.h"
#include "cuda/scan.h"
#include "cuda/shares.h"

namespace sparsecoll::cuda {

namespace {

// Entries above a boundary and equal to it.
struct Counts {
  uint32_t above;
  uint32_t equal;
};

__device__ inline Counts operator+(const Counts& a, const Counts& b) { return {a.above + b.above, a.equal + b.equal}; }

// Where an entry goes, among those of its window, if `before` it stand so many.
__device__ inline uint64_t placeAfter(const Counts& before, uint64_t equals) {
  return before.above + (before.equal < equals ? before.equal : equals);
}

template <class A>
__device__ inline Verdict judgeAt(const WindowEntries<A>& entries, const Window& window, uint64_t i) {
  if (i >= entries.count) return {false, false};
  return judge(window, entries.values[i]);
}

// Both as one number: a window has fewer than 2^32 entries, so sums of the lower half never reach the upper one.
__device__ inline uint64_t packed(uint32_t above, uint32_t equal) { return uint64_t{above} << 32 | equal; }
__device__ inline Counts unpacked(uint64_t counts) {
  return {static_cast<uint32_t>(counts >> 32), static_cast<uint32_t>(counts)};
}

constexpr uint32_t kLeastPieces = kThreads / kWarp;  // of a share: one a warp

// The tiles of a window that are in a block's share: those whose first unit is.
struct TileRun {
  uint32_t begin;
  uint32_t end;
};
__device__ inline TileRun tilesIn(const SharePart& part, const WindowCut& cut) {
  const uint32_t units = pieceUnits(cut);
  return {(part.begin + units - 1) / units, (part.end + units - 1) / units};
}

template <class A>
__global__ void __launch_bounds__(kThreads) countPieces(CutView<A> view) {
  __shared__ BlockSums<uint64_t> sums;
  forShare(view.space.pieceUnitsBefore, view.space.turn->bigCount, kLeastPieces, [&](const SharePart& part) {
    const uint32_t w = view.space.big[part.window];
    const Window& window = view.control->windows[w];
    if (window.keptForced != 0) return;
    const TileRun run = tilesIn(part, view.space.cuts[w]);
    uint64_t* const table = view.space.piecesBefore + firstTile(window) + w;
    for (uint32_t t = run.begin + warpIndex(); t < run.end; t += blockDim.x / kWarp) {
      const WindowEntries<A> entries = entriesOf(view, w, firstTile(window) + t);
      uint32_t above = 0;
      uint32_t equal = 0;
      for (uint64_t i = laneIndex(); i < entries.count; i += kWarp) {
        const Verdict verdict = judgeAt(entries, window, i);
        above += verdict.above ? 1u : 0u;
        equal += verdict.equal ? 1u : 0u;
      }
      above = warpSum(above);
      equal = warpSum(equal);
      if (laneIndex() == 0) table[t] = packed(above, equal);
    }
    __syncthreads();
    const uint64_t counts = scanByBlock<2>(table + run.begin, run.end - run.begin, sums);
    if (threadIdx.x == 0) view.space.shareCounts[blockIdx.x] = counts;  // in the end those of the share's last window
  });
}

// What stands in a window before a block's part of it. Every thread of the block calls it.
__device__ inline uint64_t countsBefore(const SharePart& part, const uint64_t* shareCounts, BlockSums<uint64_t>& room) {
  if (part.firstBlock == blockIdx.x) return 0;
  uint64_t mine = 0;
  for (uint32_t block = part.firstBlock + threadIdx.x; block < blockIdx.x; block += blockDim.x)
    mine += shareCounts[block];
  return blockSum(mine, room).total;
}

template <class A>
__device__ inline void writeEntry(const ListSlots<A>& to, uint64_t slot, uint32_t index, A value) {
  to.indices[slot] = index;
  to.values[slot] = value;
}

template <class A>
__device__ inline void writeForced(const CutView<A>& view, const ListSlots<A>& to, uint32_t w) {
  const Window& window = view.control->windows[w];
  writeEntry(to, view.space.cuts[w].outAt, static_cast<uint32_t>(window.forced), view.acc[window.forced]);
}

template <class A>
__global__ void __launch_bounds__(kThreads) emitPieces(CutView<A> view) {
  __shared__ BlockSums<uint64_t> sums;
  const ListSlots<A> to = slotsOf<A>(view.target, *view.target.count);
  forShare(view.space.pieceUnitsBefore, view.space.turn->bigCount, kLeastPieces, [&](const SharePart& part) {
    const uint32_t w = view.space.big[part.window];
    const Window& window = view.control->windows[w];
    if (window.keptForced != 0) {
      if (threadIdx.x == 0) writeForced(view, to, w);
      return;
    }
    const TileRun run = tilesIn(part, view.space.cuts[w]);
    const uint64_t outAt = view.space.cuts[w].outAt;
    const uint64_t base = countsBefore(part, view.space.shareCounts, sums);
    const uint64_t* const table = view.space.piecesBefore + firstTile(window) + w;
    for (uint32_t t = run.begin + warpIndex(); t < run.end; t += blockDim.x / kWarp) {
      const WindowEntries<A> entries = entriesOf(view, w, firstTile(window) + t);
      Counts before = unpacked(base + table[t]);
      for (uint64_t row = 0; row < entries.count; row += kWarp) {
        const uint64_t i = row + laneIndex();
        const Verdict verdict = judgeAt(entries, window, i);
        const uint32_t above = __ballot_sync(kAllLanes, verdict.above);
        const uint32_t equal = __ballot_sync(kAllLanes, verdict.equal);
        const Counts mine = before + Counts{static_cast<uint32_t>(__popc(above & lanesBelow())),
                                            static_cast<uint32_t>(__popc(equal & lanesBelow()))};
        if (verdict.above || (verdict.equal && mine.equal < window.keptEquals))
          writeEntry(to, outAt + placeAfter(mine, window.keptEquals), entries.index(i), entries.values[i]);
        before = before + Counts{static_cast<uint32_t>(__popc(above)), static_cast<uint32_t>(__popc(equal))};
      }
    }
  });
}

struct SmallRoom {
  uint32_t bins[kDigits];
  DescentRoom descent;
  BlockSums<uint32_t> above;
  BlockSums<uint32_t> equal;
};

template <class A>
__device__ void findSmallBoundary(const CutView<A>& view, uint32_t w, SmallRoom& room) {
  const WindowEntries<A> entries = entriesOf(view, w);
  uint64_t prefix = 0;
  uint64_t need = view.space.cuts[w].need;
  for (uint32_t step = 0; step < kDigitSteps<A>; ++step) {
    for (uint32_t d = threadIdx.x; d < kDigits; d += blockDim.x) room.bins[d] = 0;
    __syncthreads();
    for (uint64_t i = threadIdx.x; i < entries.count; i += blockDim.x) {
      const uint64_t key = keyOf(entries.values[i]);
      if (hasPrefix<A>(key, prefix, step)) atomicAdd(&room.bins[digitOf<A>(key, step)], 1u);
    }
    __syncthreads();
    const Chosen chosen = chooseBin(need, room.descent, [&room](uint32_t bin) { return uint64_t{room.bins[bin]}; });
    prefix |= uint64_t{chosen.bin} << digitShift<A>(step);
    need = chosen.need;
  }
  if (threadIdx.x == 0) {
    view.control->windows[w].keptKey = prefix;
    view.control->windows[w].keptEquals = need;
  }
  __syncthreads();
}

template <class A>
__device__ void emitSmall(const CutView<A>& view, const ListSlots<A>& to, uint32_t w, SmallRoom& room) {
  const Window& window = view.control->windows[w];
  const uint64_t outAt = view.space.cuts[w].outAt;
  Counts before = {};
  for (uint64_t t = 0; t < tilesOf(window); ++t) {
    const WindowEntries<A> entries = entriesOf(view, w, firstTile(window) + t);
    for (uint64_t row = 0; row < entries.count; row += blockDim.x) {
      const uint64_t i = row + threadIdx.x;
      const Verdict verdict = judgeAt(entries, window, i);
      const BlockSum<uint32_t> above = blockSum(verdict.above ? 1u : 0u, room.above);
      const BlockSum<uint32_t> equal = blockSum(verdict.equal ? 1u : 0u, room.equal);
      const Counts mine = before + Counts{above.below, equal.below};
      if (verdict.above || (verdict.equal && mine.equal < window.keptEquals))
        writeEntry(to, outAt + placeAfter(mine, window.keptEquals), entries.index(i), entries.values[i]);
      before = before + Counts{above.total, equal.total};
    }
  }
}

template <class A>
__global__ void __launch_bounds__(kThreads) cutSmall(CutView<A> view) {
  __shared__ SmallRoom room;
  const ListSlots<A> to = slotsOf<A>(view.target, *view.target.count);
  for (uint32_t i = blockIdx.x; i < view.space.turn->windows; i += gridDim.x) {
    const uint32_t w = view.chosen(i);
    const Window& window = view.control->windows[w];
    if (view.space.cuts[w].many != 0 || window.kept == 0) continue;
    if (window.keptForced != 0) {
      if (threadIdx.x == 0) writeForced(view, to, w);
      continue;
    }
    if (view.space.cuts[w].open != 0) findSmallBoundary(view, w, room);
    emitSmall(view, to, w, room);
    __syncthreads();
  }
}

}  // namespace

template <class A>
void emitEntries(const CutView<A>& view, uint64_t windows, DeviceContext& device, Stream stream) {
  if (view.mayHaveLarge()) {
    const Grid grid = device.gridForShares(view.space.tiles + view.space.mostBig, kLeastPieces);
    device.launch<countPieces<A>>("countPieces", view.space.tiles, grid, stream, view);
    device.launch<emitPieces<A>>("emitPieces", view.space.tiles, grid, stream, view);
  }
  if (view.mayHaveSmall()) device.launch<cutSmall<A>>("cutSmall", windows, device.gridFor(windows, 1), stream, view);
}

template void emitEntries(const CutView<float>&, uint64_t, DeviceContext&, Stream);
template void emitEntries(const CutView<double>&, uint64_t, DeviceContext&, Stream);

}  // namespace sparsecoll::cuda
