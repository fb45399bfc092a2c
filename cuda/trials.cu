// How many candidates reach each trial of a ladder of keys.
#include "core/search.h"
#include "cuda/block.h"
#include "cuda/device_workspace.h"
#include "cuda/selection.h"

namespace sparsecoll::cuda {

namespace {

template <class A>
__global__ void __launch_bounds__(kThreads) countLadder(TrialArgs args, SelectionSpace space) {
  __shared__ uint64_t trials[kTrials];
  __shared__ uint32_t counts[kTrials];  // of the candidates between a trial and the next
  const Window& window = args.control->windows[0];
  const auto* const values = static_cast<const A*>(args.candidateValues) + window.firstSlot;
  for (uint32_t j = threadIdx.x; j < kTrials; j += blockDim.x) {
    trials[j] = args.trials[j];
    counts[j] = 0;
  }
  __syncthreads();
  const bool complete = window.found <= window.slots;
  const uint64_t listed = complete ? window.found : 0;
  for (uint64_t i = globalThread(); i < listed; i += globalThreads()) {
    const uint64_t key = keyOf(values[i]);
    const uint32_t reached = firstWhere(0, kTrials, [&](uint32_t j) { return trials[j] > key; });
    if (reached != 0) atomicAdd(&counts[reached - 1], 1u);
  }
  __syncthreads();
  for (uint32_t j = threadIdx.x; j < kTrials; j += blockDim.x)
    if (counts[j] != 0) atomicAdd(&space.trials[j], counts[j]);
  if (!lastOf(space.turn->done, gridDim.x) || threadIdx.x != 0) return;
  args.counts[kTrials] = complete ? 0 : 1;
  double above = 0;
  for (uint32_t j = kTrials; j-- > 0;) {
    above += static_cast<double>(__ldcg(space.trials + j));
    args.counts[j] = above;
    space.trials[j] = 0;
  }
}

}  // namespace

void countTrials(const TrialArgs& args, DeviceContext& device, Stream stream) {
  withAccumulate(args.accumulateType, [&]<class A>(A) {
    const uint64_t n = workspaceOf(stream).length();
    device.launch<countLadder<A>>("countLadder", n, device.gridForShares(n, kThreads), stream, args,
                                  workspaceOf(stream).selection());
  });
}

}  // namespace sparsecoll::cuda
