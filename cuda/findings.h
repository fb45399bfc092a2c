// What kernels find wrong while nobody on the host looks. The first finding is kept; from then on kernels leave the
// residual as it is. Beside it lies a notice: the first thing that a caller wants to hear of and that keeps no kernel
// from its work.
#pragma once

#include "core/finding.h"
#include "cuda/device.h"

namespace sparsecoll::cuda {

#if SC_DEVICE_CODE
// Instead of whatever was found before.
__device__ inline void overrule(Finding* finding, const Finding& by) {
  finding->peer = by.peer;
  finding->what = by.what;
  finding->value = by.value;
  finding->limit = by.limit;
  __threadfence();
  atomicExch(&finding->result, by.result);
}
// A finding that was told, unless another one has taken its place.
__device__ inline void forget(Finding* finding, uint32_t reported) {
  if (reported != 0) atomicCAS(&finding->result, reported, 0u);
}
// Past the first-level cache, as others of the same grid may be reporting.
__device__ inline bool sound(const Finding* finding) { return __ldcg(&finding->result) == 0; }
// One answer for a block, whose threads come together: another stream may find something between two looks.
__device__ inline bool soundForAll(const Finding* finding) { return __syncthreads_or(sound(finding) ? 0 : 1) == 0; }
#endif

// conclude.cu: forgets what the host was told, but not what ends the communicator. One behind the other: finding,
// notice.
cudaError_t forgetFindings(Finding* both, const Finding (&reported)[2], cudaStream_t stream);

}  // namespace sparsecoll::cuda
