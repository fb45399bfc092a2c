#include "cuda/conclude.h"

#include "cuda/vector_access.h"

namespace sparsecoll::cuda {

namespace {

// One thread.
__global__ void decide(ConcludeArgs args, const Finding* finding, Finding* notice) {
  const bool nonFinite = args.control->anyNonFinite != 0;
  const bool isSound = sound(finding);
  args.control->takesEffect = isSound && !(nonFinite && args.nonFiniteUndoes) ? 1 : 0;
  if (isSound && nonFinite && args.nonFiniteFails)
    report(notice, sparsecollNonFinite, -1, Found::kNonFinite, args.identity.sequenceNow());
}

__global__ void forgetReported(Finding* both, uint32_t first, uint32_t second) {
  forget(both, first);
  forget(both + 1, second);
}

template <class A>
__global__ void __launch_bounds__(kThreads)
    restoreVector(A* x, const A* before, uint64_t n, bool aligned, const Control* decision) {
  if (takesEffect(decision)) return;
  for (uint64_t i = globalThread() * kLanesWide; i < n; i += globalThreads() * kLanesWide)
    storeFour(x, i, n, aligned, loadFour(before, i, n, aligned));
}

}  // namespace

cudaError_t forgetFindings(Finding* both, const Finding (&reported)[2], cudaStream_t stream) {
  uint32_t results[2];
  for (int f = 0; f < 2; ++f)
    results[f] = isFatal(static_cast<sparsecollResult_t>(reported[f].result)) ? 0 : reported[f].result;
  if (results[0] == 0 && results[1] == 0) return cudaSuccess;
  return launchOn<forgetReported>({1, 1}, stream, both, results[0], results[1]);
}

void conclude(const ConcludeArgs& args, DeviceContext& device, Stream stream) {
  device.launch<decide>("conclude", 1, {1, 1}, stream, args, device.finding(), device.notice());
}

void restore(void* x, const void* before, sparsecollDataType_t type, uint64_t n, const Control* decision,
             DeviceContext& device, Stream stream) {
  // Mostly there is nothing to put back, so the grid is no larger than the device.
  Grid grid = device.gridFor(n, kThreads * kLanesWide);
  grid.blocks = std::min<uint64_t>(grid.blocks, device.processors());
  withAccumulate(type, [&]<class A>(A) {
    device.launch<restoreVector<A>>("restore", n, grid, stream, static_cast<A*>(x), static_cast<const A*>(before), n,
                                    inFours<A>(x) && inFours<A>(before), decision);
  });
}

}  // namespace sparsecoll::cuda
