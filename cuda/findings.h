// What kernels find wrong while nobody on the host looks. The first finding is kept; from then on kernels leave the
// residual as it is. Beside it lies a notice: the first thing that a caller wants to hear of and that keeps no kernel
// from its work.
#pragma once

#include "core/status.h"
#include "cuda/device.h"

namespace sparsecoll::cuda {

struct Finding {
  uint32_t result;  // sparsecollResult_t; 0: none
  int32_t peer;     // rank concerned, -1 if none
  uint32_t what;    // Found
  uint64_t value;
  uint64_t limit;
};

// What a finding says; findings.cu has the texts.
enum class Found : uint32_t {
  kNothing,
  kSequence,  // value: the frame's, limit: this rank's
  kPlan,
  kFlags,
  kCount,         // value entries where the frame has room for limit
  kCountsDiffer,  // value values for limit indices
  kIndex,         // value is not below limit
  kOrder,         // entry value is not above the one before it
  kParts,         // value entries are not limit lists of equal length
  kOwners,        // value entries where the owner has room for limit
  kOutput,        // the union has value entries, the output limit slots
  kShares,        // the teams give different shares
  kNonFinite,     // operation value met NaN or Inf
  kWindow,        // window value has limit elements, which its plan has ruled out
  kEnded,         // the communicator has: nothing takes effect any more
};

#if SC_DEVICE_CODE
__device__ inline void report(Finding* finding, sparsecollResult_t result, int32_t peer, Found what, uint64_t value = 0,
                              uint64_t limit = 0) {
  if (atomicCAS(&finding->result, 0u, static_cast<uint32_t>(result)) != 0) return;
  finding->peer = peer;
  finding->what = static_cast<uint32_t>(what);
  finding->value = value;
  finding->limit = limit;
}
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
__device__ inline void forget(Finding* finding, uint32_t told) {
  if (told != 0) atomicCAS(&finding->result, told, 0u);
}
// Past the first-level cache, as others of the same grid may be reporting.
__device__ inline bool sound(const Finding* finding) { return __ldcg(&finding->result) == 0; }
// One answer for a block, whose threads come together: another stream may find something between two looks.
__device__ inline bool soundForAll(const Finding* finding) { return __syncthreads_or(sound(finding) ? 0 : 1) == 0; }
#endif

Status statusOf(const Finding& finding);

// conclude.cu: forgets what the host was told, but not what ends the communicator. One behind the other: finding,
// notice.
cudaError_t forgetFindings(Finding* both, const Finding (&told)[2], cudaStream_t stream);

}  // namespace sparsecoll::cuda
