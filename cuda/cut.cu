// Exact selection. How many entries every window keeps follows from the counts of the pass, so their places in the
// target are known before it is known which they are. Then the boundary of each window is found by a radix descent over
// its candidates, or over acc where these do not decide it, and entries go to their places in index order. Small
// windows are cut by a block each, large ones by many blocks.
#include "cuda/cut.h"

#include "core/random.h"
#include "cuda/block.h"
#include "cuda/non_finite.h"
#include "cuda/selection.h"
#include "cuda/shares.h"
#include "cuda/table.h"

namespace sparsecoll::cuda {

namespace {

constexpr uint32_t kPlanThreads = 512;

// The candidates that reach the window's least key, where that is above the pass's. Window after window: selections
// with such a key have one.
template <class A>
__global__ void __launch_bounds__(kThreads) countPassing(CutView<A> view) {
  __shared__ BlockSums<uint32_t> sums;
  for (uint32_t i = 0; i < view.space.turn->windows; ++i) {
    const uint32_t w = view.chosen(i);
    const Window& window = view.control->windows[w];
    if (window.exact != 0 || window.least <= window.key) continue;
    const uint64_t listed = window.listed < window.slots ? window.listed : window.slots;
    const A* const values = view.candidateValues + window.firstSlot;
    uint32_t count = 0;
    for (uint64_t at = globalThread(); at < listed; at += globalThreads())
      count += keyOf(values[at]) >= window.least ? 1u : 0u;
    const uint32_t total = blockSum(count, sums).total;
    if (threadIdx.x == 0 && total != 0) atomicAddWide(&view.space.cuts[w].passing, total);
  }
}

// What decide() of the host's cut tells before it looks for the boundary.
__device__ inline uint64_t passingOf(const Window& window, const WindowCut& cut) {
  return window.least <= window.key ? window.listed : cut.passing;
}
__device__ inline uint64_t needOf(const Window& window, const WindowCut& cut) {
  const uint64_t most = window.exact != 0 ? window.end - window.begin : passingOf(window, cut);
  return window.limit < most ? window.limit : most;
}
__device__ inline uint64_t expectedOf(const Window& window, const WindowCut& cut) {
  const uint64_t need = needOf(window, cut);
  return need == 0 && window.forced != kNoForcedIndex ? 1 : need;
}

struct PlanCounts {
  uint64_t candidates;
  uint32_t overflows;
  uint32_t fallbacks;
};

template <class A>
__device__ inline void planWindow(Window& window, WindowCut& cut, PlanCounts& counts) {
  const uint64_t passed = passingOf(window, cut);
  window.kept = needOf(window, cut);
  window.keptForced = 0;
  window.floor = window.key;
  window.missed = window.listed > window.slots ? kKeyTooLow : window.listed < window.kept ? kKeyTooHigh : kKeyFits;
  if (window.limit != 0 && (window.exact != 0 ? window.kept : passed) > window.limit) ++counts.overflows;
  counts.candidates += window.listed;
  if (window.missed != kKeyFits && window.lazy == 0) ++counts.fallbacks;
  cut.dense = window.missed != kKeyFits ? 1 : 0;
  const uint64_t count = cut.dense != 0 ? window.end - window.begin : window.listed;
  const bool everything = window.kept != 0 && (window.kept == count || (window.exact == 0 && window.kept == passed));
  if (window.kept == 0 && window.forced != kNoForcedIndex) window.kept = window.keptForced = 1;
  cut.open = 0;
  cut.prefix = 0;
  cut.need = window.kept;
  if (window.kept == 0 || window.keptForced != 0) {
    window.keptKey = static_cast<typename Magnitude<A>::Key>(~uint64_t{0});
    window.keptEquals = 0;
  } else if (everything) {
    const uint64_t floor = window.exact != 0 ? window.floor : window.key > window.least ? window.key : window.least;
    window.keptKey = window.exact != 0 && cut.dense != 0 ? 0 : floor;
    window.keptEquals = count;
  } else {
    cut.open = 1;
  }
}

__device__ inline void beginWindow(Window& window, WindowCut& cut) {
  window.listed = window.found;
  cut.passing = 0;
  cut.arrived = 0;
}

// What reached a window's key may not be finite. Windows that are lazy were seen to by the pass.
template <class A>
__device__ inline void nameInside(const CutView<A>& view, NamingRoom& room) {
  for (uint32_t i = 0; i < view.space.turn->windows; ++i) {
    const Window& window = view.control->windows[view.chosen(i)];
    if (window.lazy == 0) nameNonFinite(view.acc, window.begin, window.end, view.control->nonFinite, room);
  }
}

// The large windows, in order, and how much work each one is: entries where its boundary has to be found, pieces where
// something is kept.
template <class A>
__device__ inline void shareOut(const CutView<A>& view, BlockSums<uint32_t>& sums) {
  const SelectionSpace& space = view.space;
  uint32_t big = 0;
  for (uint32_t row = 0; row < space.turn->windows; row += blockDim.x) {
    const uint32_t i = row + threadIdx.x;
    const bool many = i < space.turn->windows && space.cuts[view.chosen(i)].many != 0;
    const BlockSum<uint32_t> sum = blockSum(many ? 1u : 0u, sums);
    if (many) space.big[big + sum.below] = view.chosen(i);
    big += sum.total;
  }
  if (threadIdx.x == 0) space.turn->bigCount = big;
  __syncthreads();
  layOutUnits(space.unitsBefore, big, sums, [&](uint32_t b) {
    const uint32_t w = space.big[b];
    return space.cuts[w].open != 0 ? entriesOf(view, w).count : 0;
  });
  layOutUnits(space.pieceUnitsBefore, big, sums, [&](uint32_t b) {
    const uint32_t w = space.big[b];
    const Window& window = view.control->windows[w];
    if (window.keptForced != 0) return uint64_t{1};
    return window.kept != 0 ? tilesOf(window) * pieceUnits(space.cuts[w]) : 0;
  });
}

// One block: every window's number of entries and their place in the target. begins: the cut begins here.
template <class A>
__global__ void __launch_bounds__(kPlanThreads) planCut(CutView<A> view, uint32_t begins, Finding* finding) {
  __shared__ BlockSums<uint64_t> sums;
  __shared__ BlockSums<uint32_t> shares;
  __shared__ NamingRoom naming;
  __shared__ uint64_t total;
  Control& control = *view.control;
  if (begins != 0) {
    for (uint32_t w = threadIdx.x; w < control.windowCount; w += blockDim.x)
      beginWindow(control.windows[w], view.space.cuts[w]);
    if (threadIdx.x == 0) view.space.turn->windows = control.windowCount;
    __syncthreads();
  }
  const uint32_t windows = view.space.turn->windows;
  if (threadIdx.x == 0) total = 0;
  __syncthreads();
  for (uint32_t row = 0; row < windows; row += blockDim.x) {
    const uint32_t i = row + threadIdx.x;
    const uint32_t w = i < windows ? view.chosen(i) : 0;
    const uint64_t expected = i < windows ? expectedOf(control.windows[w], view.space.cuts[w]) : 0;
    const uint64_t before = total;
    const BlockSum<uint64_t> sum = blockSum(expected, sums);
    if (i < windows) view.space.cuts[w].outAt = before + sum.below;
    if (threadIdx.x == 0) total = before + sum.total;
    __syncthreads();
  }
  const bool fits = total <= view.target.capacity;
  __syncthreads();
  if (!fits && threadIdx.x == 0) {  // a message has no room for more
    total = 0;
    for (uint32_t i = 0; i < windows; ++i) {
      Window& window = control.windows[view.chosen(i)];
      WindowCut& cut = view.space.cuts[view.chosen(i)];
      cut.outAt = total;
      const uint64_t room = view.target.capacity - total;
      window.limit = window.limit < room ? window.limit : room;
      total += expectedOf(window, cut);
    }
  }
  __syncthreads();
  PlanCounts counts = {};
  for (uint32_t i = threadIdx.x; i < windows; i += blockDim.x) {
    const uint32_t w = view.chosen(i);
    Window& window = control.windows[w];
    WindowCut& cut = view.space.cuts[w];
    const uint64_t room = view.target.capacity - cut.outAt;
    window.limit = window.limit < room ? window.limit : room;
    planWindow<A>(window, cut, counts);
    cut.passing = 0;
    const uint64_t length = window.end - window.begin;
    cut.many = length > kOneBlockMost ? 1 : 0;
    const bool climbs = window.exact == 0 && window.least > window.key;
    if ((cut.many != 0 ? !view.mayHaveLarge() : !view.mayHaveSmall()) || (climbs && !view.facts.trials))
      report(finding, sparsecollInternalError, -1, Found::kWindow, w, length);
  }
  if (counts.candidates != 0) atomicAddWide(&control.candidates, counts.candidates);
  if (counts.overflows != 0) atomicAddWide(&control.overflows, counts.overflows);
  if (counts.fallbacks != 0) atomicAddWide(&control.fallbacks, counts.fallbacks);
  if (threadIdx.x == 0) {
    control.selected += static_cast<uint32_t>(total);
    *view.target.count = static_cast<uint32_t>(total);
  }
  if (view.mayHaveLarge()) shareOut(view, shares);
  if (view.space.turn->nonFinite != 0) nameInside(view, naming);
}

// chosen: the windows to cut, in order; copied because the launch's argument does not outlive it.
template <class Chosen>
__global__ void beginCut(Control* control, SelectionSpace space, Chosen chosen) {
  const uint32_t windows = chosen.count != 0 ? chosen.count : control->windowCount;
  for (uint64_t i = globalThread(); i < windows; i += globalThreads()) {
    const uint32_t w = chosen.count != 0 ? chosen.items[i] : static_cast<uint32_t>(i);
    if (chosen.count != 0) space.chosen[i] = w;
    beginWindow(control->windows[w], space.cuts[w]);
  }
  if (globalThread() == 0) space.turn->windows = windows;
}

template <class A>
CutView<A> cutView(const CutArgs& args, Stream stream) {
  CutView<A> view;
  view.acc = static_cast<A*>(args.acc);
  view.control = args.control;
  view.candidateIndices = args.candidateIndices;
  view.candidateValues = static_cast<A*>(args.candidateValues);
  view.target = args.target;
  view.space = workspaceOf(stream).selection();
  view.n = workspaceOf(stream).length();
  view.all = args.windows.empty() ? 1 : 0;
  view.facts = args.facts;
  return view;
}

template <class A>
void cutOf(const CutArgs& args, DeviceContext& device, Stream stream) {
  const CutView<A> view = cutView<A>(args, stream);
  const uint64_t windows = args.windows.empty() ? view.space.windows : args.windows.size();
  const bool plansAtOnce = args.windows.empty() && args.arrivals.empty() && !args.facts.trials;
  if (!plansAtOnce)
    withTable(args.windows, [&](const auto& chosen) {
      device.launch<beginCut<std::decay_t<decltype(chosen)>>>("beginCut", windows, device.gridFor(windows), stream,
                                                              args.control, view.space, chosen);
    });
  if (!args.arrivals.empty()) addArrivals(view, args, device, stream);
  if (args.facts.trials)
    device.launch<countPassing<A>>("countPassing", view.n, device.gridForShares(view.n, kThreads), stream, view);
  device.launch<planCut<A>>("planCut", windows, {1, kPlanThreads}, stream, view, plansAtOnce ? 1u : 0u,
                            device.finding());
  findBoundaries(view, device, stream);
  emitEntries(view, windows, device, stream);
  if (!args.arrivals.empty()) dropArrivals(view, args, device, stream);
}

}  // namespace

void cut(const CutArgs& args, DeviceContext& device, Stream stream) {
  withAccumulate(args.accumulateType, [&]<class A>(A) { cutOf<A>(args, device, stream); });
}

}  // namespace sparsecoll::cuda
