// The fused pass: acc is formed, written, and what reaches a window's key is collected, in one stream over the vector.
// A block takes a tile at a time. What it found in a piece gets a range of the window's list in one atomic addition and
// a note of where that is: ranges come in any order, their notes stand in index order.
#include "cuda/block.h"
#include "cuda/cut.h"
#include "cuda/non_finite.h"
#include "cuda/pass_view.h"
#include "cuda/selection.h"
#include "cuda/shares.h"
#include "cuda/windows.h"

namespace sparsecoll::cuda {

namespace {

constexpr uint32_t kPassThreads = 512;
constexpr uint32_t kEach = kPieceTile / kPassThreads;  // elements a thread has of a tile,
constexpr uint32_t kRows = kEach / kLanesWide;         // in so many fours, a row of its warp each
constexpr uint32_t kRow = kWarp * kLanesWide;          // elements of a row
constexpr uint32_t kStretch = kRow * kRows;            // elements of a warp, in index order

// Two blocks a processor, so that one loads while the other counts; doubles need more registers than that leaves.
template <class A>
inline constexpr uint32_t kBlocksAtOnce = sizeof(A) == 4 ? 2 : 1;

template <class A>
struct Held {
  A acc[kEach];
};

// Element e of a thread lies here in the tile.
__device__ inline uint32_t placeOf(uint32_t e) {
  return warpIndex() * kStretch + e / kLanesWide * kRow + laneIndex() * kLanesWide + e % kLanesWide;
}

template <class A, class T>
__device__ Held<A> formTile(const PassView<A, T>& view, const AccSource<A, T>& source, uint64_t tileBegin) {
  Four<T> gradients[kRows];
  Four<A> residuals[kRows] = {};
  for (uint32_t row = 0; row < kRows; ++row)
    gradients[row] = loadFour(source.gradient, tileBegin + placeOf(row * kLanesWide), view.n, source.aligned);
  if (source.in != nullptr)
    for (uint32_t row = 0; row < kRows; ++row)
      residuals[row] = loadFour(source.in, tileBegin + placeOf(row * kLanesWide), view.n, source.aligned);
  Held<A> held;
  for (uint32_t row = 0; row < kRows; ++row) {
    const uint64_t at = tileBegin + placeOf(row * kLanesWide);
    Four<A> velocities = {};
    if (source.velocityIn != nullptr) velocities = loadFour(source.velocityIn, at, view.n, source.aligned);
    Four<A> accs;
    for (uint32_t q = 0; q < kLanesWide; ++q) {
      if (view.out == nullptr) {
        accs.at[q] = Element<T>::load(gradients[row].at[q]);
        continue;
      }
      const Moved<A> moved = accumulate(source, gradients[row].at[q], residuals[row].at[q], velocities.at[q]);
      accs.at[q] = moved.acc;
      velocities.at[q] = moved.velocity;
    }
    if (view.out != nullptr) storeFour(view.out, at, view.n, source.aligned, accs);
    if (source.velocityIn != nullptr) storeFour(view.velocityOut, at, view.n, source.aligned, velocities);
    for (uint32_t q = 0; q < kLanesWide; ++q) held.acc[row * kLanesWide + q] = accs.at[q];
  }
  return held;
}

// The bits of this thread's elements in [begin, end) of the tile that reach the key.
template <class A>
__device__ uint32_t reaching(const Held<A>& held, uint32_t begin, uint32_t end, uint64_t key) {
  uint32_t bits = 0;
  for (uint32_t e = 0; e < kEach; ++e) {
    const uint32_t place = placeOf(e);
    if (place >= begin && place < end && keyOf(held.acc[e]) >= key) bits |= 1u << e;
  }
  return bits;
}

// Stores the elements whose bits are set, in index order, from `first` of the window's list on.
template <class A, class T>
__device__ void storeCandidates(const PassView<A, T>& view, const Window& window, uint64_t tileBegin,
                                const Held<A>& held, uint32_t bits, uint64_t first) {
  for (uint32_t row = 0; row < kRows; ++row) {
    const uint32_t mine = bits >> (row * kLanesWide) & 0xfu;
    if (__ballot_sync(kAllLanes, mine != 0) == 0) continue;
    const auto count = static_cast<uint32_t>(__popc(mine));
    uint64_t slot = first + warpSumBelow(count);
    first += warpSum(count);
    for (uint32_t q = 0; q < kLanesWide; ++q) {
      if ((mine >> q & 1u) == 0) continue;
      if (slot < window.slots) {
        view.candidateIndices[window.firstSlot + slot] =
            static_cast<uint32_t>(tileBegin + placeOf(row * kLanesWide + q));
        view.candidateValues[window.firstSlot + slot] = held.acc[row * kLanesWide + q];
      }
      ++slot;
    }
  }
}

// A window's elements of a tile.
struct WindowPart {
  uint32_t begin;
  uint32_t end;
};

__device__ inline WindowPart partIn(const Window& window, uint64_t tile) {
  const uint64_t low = tile * kPieceTile;
  const uint64_t end = window.end < low + kPieceTile ? window.end - low : kPieceTile;
  return {static_cast<uint32_t>(window.begin > low ? window.begin - low : 0), static_cast<uint32_t>(end)};
}

template <class A>
struct PassRoom {
  BlockSums<uint32_t> sums;
  uint64_t first;
};

template <class A, class T>
__device__ void collectPiece(const PassView<A, T>& view, uint32_t w, uint64_t tile, uint32_t begin, uint32_t end,
                             const Held<A>& held, uint64_t& collected, PassRoom<A>& room) {
  const Window& window = view.control->windows[w];
  const uint32_t bits = reaching(held, begin, end, window.key);
  const BlockSum<uint32_t> found = blockSum(static_cast<uint32_t>(__popc(bits)), room.sums);
  if (threadIdx.x == 0) {
    room.first = found.total != 0 ? atomicAddWide(&collected, found.total) : 0;
    view.space.pieces[tile + w] = {static_cast<uint32_t>(room.first), found.total};
  }
  if (found.total == 0) return;
  uint32_t infinite = 0;
  for (uint32_t e = 0; e < kEach; ++e) infinite |= (bits >> e & 1u) & (isFinite(held.acc[e]) ? 0u : 1u);
  if (infinite != 0) atomicOr(&view.space.turn->nonFinite, 1u);
  __syncthreads();
  // A thread's elements are spread over the rows of its warp, so its place among the warp's comes row by row.
  const uint32_t beforeWarp = __shfl_sync(kAllLanes, found.below, 0);
  storeCandidates(view, window, tile * kPieceTile, held, bits, room.first + beforeWarp);
}

template <class A, class T>
__global__ void __launch_bounds__(kPassThreads, kBlocksAtOnce<A>) passTiles(PassView<A, T> view) {
  __shared__ PassRoom<A> room;
  const Control& control = *view.control;
  const AccSource<A, T> source = view.source.onDevice();
  for (uint64_t tile = blockIdx.x; tile * kPieceTile < view.n; tile += gridDim.x) {
    const uint64_t tileBegin = tile * kPieceTile;
    const uint64_t tileEnd = tileBegin + kPieceTile < view.n ? tileBegin + kPieceTile : view.n;
    Held<A> held = formTile(view, source, tileBegin);
    bool finite = true;
    for (uint32_t e = 0; e < kEach; ++e) finite &= isFinite(held.acc[e]);
    uint32_t outside = 0;  // elements of no window that are not finite
    if (!finite)
      for (uint32_t e = 0; e < kEach; ++e) {
        const uint64_t i = tileBegin + placeOf(e);
        if (isFinite(held.acc[e]) || i >= tileEnd) continue;
        outside |= 1u << e;
        held.acc[e] = shareNaN(view, i, held.acc[e]);
      }
    for (uint32_t w = firstWindowPast(control, tileBegin); w < control.windowCount; ++w) {
      const Window& window = control.windows[w];
      if (window.begin >= tileEnd) break;
      const WindowPart part = partIn(window, tile);
      collectPiece(view, w, tile, part.begin, part.end, held, view.control->windows[w].found, room);
      if (outside == 0) continue;
      for (uint32_t e = 0; e < kEach; ++e)
        if (placeOf(e) >= part.begin && placeOf(e) < part.end) outside &= ~(1u << e);
    }
    if (outside != 0) atomicAdd(&view.control->nonFinite.count, static_cast<uint32_t>(__popc(outside)));
  }
}

// The pieces of windows that are marked for it, in the shares that planArrivals has laid out.
template <class A>
__global__ void __launch_bounds__(kPassThreads, 1) collectMarked(CutView<A> cut, PassView<A, A> view) {
  __shared__ PassRoom<A> room;
  const AccSource<A, A> source = view.source.onDevice();
  forShare(cut.space.unitsBefore, cut.space.turn->windows, 1, [&](const SharePart& share) {
    const uint32_t w = cut.chosen(share.window);
    Window& window = view.control->windows[w];
    for (uint32_t t = share.begin; t < share.end; ++t) {
      const uint64_t tile = firstTile(window) + t;
      const Held<A> held = formTile(view, source, tile * kPieceTile);
      const WindowPart part = partIn(window, tile);
      collectPiece(view, w, tile, part.begin, part.end, held, window.listed, room);
    }
  });
}

__global__ void beginPass(Control* control, SelectionSpace space) {
  for (uint64_t w = globalThread(); w < control->windowCount; w += globalThreads()) control->windows[w].found = 0;
  if (globalThread() != 0) return;
  control->nonFinite.count = 0;
  control->overflows = control->fallbacks = control->candidates = 0;
  control->selected = 0;
  control->selectedWith = 0;
  space.turn->nonFinite = 0;
}

// Names the non-finite entries outside of the windows.
template <class A>
__global__ void __launch_bounds__(kNamingThreads)
    nameOutside(Control* control, const A* acc, uint64_t n, uint32_t windows) {
  if (control->nonFinite.count == 0) return;
  __shared__ NamingRoom room;
  __syncthreads();
  if (threadIdx.x == 0) control->nonFinite.count = 0;
  __syncthreads();
  uint64_t done = 0;
  for (uint32_t w = 0; w < windows; ++w) {
    nameNonFinite(acc, done, control->windows[w].begin, control->nonFinite, room);
    done = control->windows[w].end;
  }
  nameNonFinite(acc, done, n, control->nonFinite, room);
}

template <class A, class T>
void passOf(const PassArgs& args, DeviceContext& device, Stream stream) {
  const PassView<A, T> view = passView<A, T>(args, stream);
  const auto* const acc = static_cast<const A*>(args.out != nullptr ? args.out : args.gradient);
  device.launch<beginPass>("beginPass", view.space.windows, device.gridFor(view.space.windows), stream, args.control,
                           view.space);
  if (args.norms != nullptr) {
    measureNorms(view, args.norms, device, stream);
  } else {
    device.launch<passTiles<A, T>>("passTiles", args.n, device.gridFor(args.n, kPieceTile, kPassThreads), stream, view);
  }
  if (args.facts.everywhere && args.norms == nullptr) return;
  // All of acc is outside of empty windows. This pass may have none where the workspace has room for another one's.
  const bool noWindows = args.norms != nullptr || args.facts.longest == 0;
  const auto windows = static_cast<uint32_t>(noWindows ? 0 : view.space.windows);
  device.launch<nameOutside<A>>("nameOutside", args.n, {1, kNamingThreads}, stream, args.control, acc, args.n, windows);
}

}  // namespace

template <class A>
void collectAgain(const CutView<A>& view, DeviceContext& device, Stream stream) {
  PassArgs args;
  args.gradient = view.acc;
  args.n = view.n;
  args.control = view.control;
  args.candidateIndices = view.candidateIndices;
  args.candidateValues = view.candidateValues;
  const Grid grid = device.gridForShares(view.space.tiles + view.space.windows, 1, kPassThreads);
  device.launch<collectMarked<A>>("collectMarked", view.n, grid, stream, view, passView<A, A>(args, stream));
}

template void collectAgain(const CutView<float>&, DeviceContext&, Stream);
template void collectAgain(const CutView<double>&, DeviceContext&, Stream);

void pass(const PassArgs& args, DeviceContext& device, Stream stream) {
  withElement(args.gradientType, [&]<class T>(T) { passOf<typename Element<T>::Accumulate, T>(args, device, stream); });
}

}  // namespace sparsecoll::cuda
