// Windows that are cut together with what peers sent for them. The arrivals are summed, list by list, and added to acc
// for the time of the cut; where their window's candidates were complete, and have room for them, these are collected
// anew. Afterwards acc is put back, and what was not selected is written as dropped.
#include "cuda/cut.h"
#include "cuda/lists.h"
#include "cuda/scan.h"
#include "cuda/shares.h"
#include "cuda/union.h"
#include "cuda/windows.h"

namespace sparsecoll::cuda {

namespace {

template <class A>
struct ArrivalView {
  CutView<A> cut;
  const uint32_t* indices;  // of the sums, in order
  A* sums;
  const uint32_t* count;
  List dropped;
  uint64_t tile;  // sums that are counted together
  uint64_t* tilesBefore;

  // acc's values at these indices, behind the sums.
  __device__ A* before() const { return sums + *count; }

  // The chosen window that sum i is for; kNoWindow: none.
  static constexpr uint32_t kNoWindow = ~0u;
  __device__ uint32_t windowOf(uint32_t i) const {
    const Control& control = *cut.control;
    const uint32_t w = firstWindowPast(control, indices[i]);
    if (w == control.windowCount || control.windows[w].begin > indices[i]) return kNoWindow;
    const uint32_t windows = cut.space.turn->windows;
    const uint32_t place = firstWhere(0, windows, [&](uint32_t c) { return cut.chosen(c) >= w; });
    return place < windows && cut.chosen(place) == w ? w : kNoWindow;
  }
};

template <class A>
__global__ void __launch_bounds__(kThreads) patchAcc(ArrivalView<A> view) {
  const uint32_t count = *view.count;
  for (uint64_t i = globalThread(); i < count; i += globalThreads()) {
    const uint32_t w = view.windowOf(static_cast<uint32_t>(i));
    if (w == ArrivalView<A>::kNoWindow) continue;
    A& entry = view.cut.acc[view.indices[i]];
    view.before()[i] = entry;
    entry += view.sums[i];
    if (!isFinite(entry)) atomicOr(&view.cut.space.turn->nonFinite, 1u);
    atomicAdd(&view.cut.space.cuts[w].arrived, 1u);
  }
}

// One block: which windows are read again, and how much work each one is. Too many for their room counts as a list that
// overflowed.
template <class A>
__global__ void __launch_bounds__(kThreads) planArrivals(CutView<A> view) {
  __shared__ BlockSums<uint32_t> sums;
  layOutUnits(view.space.unitsBefore, view.space.turn->windows, sums, [&](uint32_t i) -> uint64_t {
    Window& window = view.control->windows[view.chosen(i)];
    const WindowCut& cut = view.space.cuts[view.chosen(i)];
    if (cut.arrived == 0 || window.listed > window.slots) return 0;
    const bool again = window.listed + cut.arrived <= window.slots;
    window.listed = again ? 0 : window.slots + 1;
    return again ? tilesOf(window) : 0;
  });
}

template <class A>
__device__ inline bool isDropped(const ArrivalView<A>& view, uint32_t i) {
  if (view.windowOf(i) == ArrivalView<A>::kNoWindow) return false;
  const uint32_t* const kept = view.cut.target.indices;
  const uint32_t count = *view.cut.target.count;
  const uint32_t at = firstNotBelow(kept, 0, count, view.indices[i]);
  return at == count || kept[at] != view.indices[i];
}

// Also puts acc back.
template <class A>
__global__ void __launch_bounds__(kThreads, 1) countDropped(ArrivalView<A> view) {
  __shared__ BlockSums<uint32_t> sums;
  __shared__ BlockSums<uint64_t> scan;
  const uint64_t count = *view.count;
  const uint64_t tiles = (count + view.tile - 1) / view.tile;
  for (uint64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
    uint32_t dropped = 0;
    for (uint64_t i = t * view.tile + threadIdx.x; i < count && i < (t + 1) * view.tile; i += blockDim.x) {
      const auto at = static_cast<uint32_t>(i);
      if (view.windowOf(at) == ArrivalView<A>::kNoWindow) continue;
      view.cut.acc[view.indices[i]] = view.before()[i];
      dropped += isDropped(view, at) ? 1u : 0u;
    }
    const uint32_t total = blockSum(dropped, sums).total;
    if (threadIdx.x == 0) view.tilesBefore[t] = total;
  }
  if (!lastOf(view.cut.space.turn->done, gridDim.x)) return;
  const uint64_t total = scanByBlock(view.tilesBefore, tiles, scan);
  if (threadIdx.x == 0) *view.dropped.count = static_cast<uint32_t>(total);
}

template <class A>
__global__ void __launch_bounds__(kThreads, 1) writeDropped(ArrivalView<A> view) {
  __shared__ BlockSums<uint32_t> sums;
  const uint64_t count = *view.count;
  const uint64_t tiles = (count + view.tile - 1) / view.tile;
  for (uint64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
    uint64_t slot = view.tilesBefore[t];
    for (uint64_t row = t * view.tile; row < count && row < (t + 1) * view.tile; row += blockDim.x) {
      const uint64_t i = row + threadIdx.x;
      const bool drops = i < count && i < (t + 1) * view.tile && isDropped(view, static_cast<uint32_t>(i));
      const BlockSum<uint32_t> sum = blockSum(drops ? 1u : 0u, sums);
      if (drops) {
        view.dropped.indices[slot + sum.below] = view.indices[i];
        static_cast<A*>(view.dropped.values)[slot + sum.below] = view.sums[i];
      }
      slot += sum.total;
    }
  }
}

template <class A>
ArrivalView<A> arrivalView(const CutView<A>& view, const CutArgs& args, const ListSpace& space) {
  ArrivalView<A> arrivals;
  arrivals.cut = view;
  arrivals.indices = args.scratch.indices;
  arrivals.sums = static_cast<A*>(args.scratch.values);
  arrivals.count = args.scratch.count;
  arrivals.dropped = args.dropped;
  arrivals.tile = std::max(kCutTile, alignUp((args.scratch.capacity + space.tiles - 1) / space.tiles, kThreads));
  arrivals.tilesBefore = space.tilesBefore;
  return arrivals;
}

}  // namespace

template <class A>
void addArrivals(const CutView<A>& view, const CutArgs& args, DeviceContext& device, Stream stream) {
  const ListSpace* const space = spaceFor("addArrivals", args.arrivals.size(), device, stream);
  if (space == nullptr) return;
  const Stretches at = locate<A, uint32_t>(args.arrivals, {0, view.n}, {}, *space, device, stream);
  UnionOut out;
  out.indices = args.scratch.indices;
  out.values = args.scratch.values;
  out.type = args.accumulateType;
  out.capacity = args.scratch.capacity / 2;  // acc's values come behind the sums
  out.count = args.scratch.count;
  unite<A, uint32_t>("addArrivals", at, {}, out, *space, device, stream);
  const uint64_t windows = args.windows.empty() ? view.space.windows : args.windows.size();
  device.launch<patchAcc<A>>("patchAcc", out.capacity, device.gridFor(out.capacity), stream,
                             arrivalView(view, args, *space));
  device.launch<planArrivals<A>>("planArrivals", windows, {1, kThreads}, stream, view);
  collectAgain(view, device, stream);
}

template <class A>
void dropArrivals(const CutView<A>& view, const CutArgs& args, DeviceContext& device, Stream stream) {
  const ListSpace* const space = spaceFor("dropArrivals", args.arrivals.size(), device, stream);
  if (space == nullptr) return;
  const ArrivalView<A> arrivals = arrivalView(view, args, *space);
  const Grid grid = device.gridFor(args.scratch.capacity / 2, kCutTile);
  device.launch<countDropped<A>>("countDropped", args.scratch.capacity, grid, stream, arrivals);
  device.launch<writeDropped<A>>("writeDropped", args.scratch.capacity, grid, stream, arrivals);
}

template void addArrivals(const CutView<float>&, const CutArgs&, DeviceContext&, Stream);
template void addArrivals(const CutView<double>&, const CutArgs&, DeviceContext&, Stream);
template void dropArrivals(const CutView<float>&, const CutArgs&, DeviceContext&, Stream);
template void dropArrivals(const CutView<double>&, const CutArgs&, DeviceContext&, Stream);

}  // namespace sparsecoll::cuda
