// The boundary of large windows: a digit a step, every step one reading of the entries. Blocks count in shared memory
// and add up; of those that have a share of a window the last one to finish chooses the bin and leaves the counts zero.
#include "cuda/cut.h"
#include "cuda/descent.h"
#include "cuda/shares.h"

namespace sparsecoll::cuda {

namespace {

constexpr uint32_t kLeastEntries = 4 * kThreads;  // of a share: fewer cost less than to clear and to add up the bins

template <class A>
__global__ void __launch_bounds__(kThreads) countDigits(CutView<A> view, uint32_t step) {
  __shared__ uint32_t bins[kDigits];
  __shared__ DescentRoom room;
  forShare(view.space.unitsBefore, view.space.turn->bigCount, kLeastEntries, [&](const SharePart& part) {
    const uint32_t w = view.space.big[part.window];
    WindowCut& cut = view.space.cuts[w];
    const uint64_t prefix = cut.prefix;
    const uint64_t need = cut.need;
    for (uint32_t d = threadIdx.x; d < kDigits; d += blockDim.x) bins[d] = 0;
    __syncthreads();
    const WindowEntries<A> entries = entriesOf(view, w);
    for (uint64_t i = uint64_t{part.begin} + threadIdx.x; i < part.end; i += blockDim.x) {
      const uint64_t key = keyOf(entries.values[i]);
      if (hasPrefix<A>(key, prefix, step)) atomicAdd(&bins[digitOf<A>(key, step)], 1u);
    }
    __syncthreads();
    uint32_t* const all = view.space.digits + uint64_t{part.window} * kDigits;
    for (uint32_t d = threadIdx.x; d < kDigits; d += blockDim.x)
      if (bins[d] != 0) atomicAdd(&all[d], bins[d]);
    if (!lastOf(cut.done, part.blocks)) return;
    const Chosen chosen = chooseBin(need, room, [all](uint32_t bin) { return uint64_t{__ldcg(all + bin)}; });
    for (uint32_t d = threadIdx.x; d < kDigits; d += blockDim.x) all[d] = 0;
    if (threadIdx.x != 0) return;
    cut.prefix = prefix | uint64_t{chosen.bin} << digitShift<A>(step);
    cut.need = chosen.need;
    if (step + 1 < kDigitSteps<A>) return;
    Window& window = view.control->windows[w];
    window.keptKey = cut.prefix;
    window.keptEquals = cut.need;
  });
}

}  // namespace

template <class A>
void findBoundaries(const CutView<A>& view, DeviceContext& device, Stream stream) {
  if (!view.mayHaveLarge()) return;
  for (uint32_t step = 0; step < kDigitSteps<A>; ++step)
    device.launch<countDigits<A>>("countDigits", view.n, device.gridForShares(view.n, kLeastEntries), stream, view,
                                  step);
}

template void findBoundaries(const CutView<float>&, DeviceContext&, Stream);
template void findBoundaries(const CutView<double>&, DeviceContext&, Stream);

}  // namespace sparsecoll::cuda
