// How a step ends: kernels decide whether it takes effect, and put back what it changed where it does not.
#pragma once

#include "cuda/device_context.h"

namespace sparsecoll::cuda {

#if SC_DEVICE_CODE
// decision: as in SettleArgs.
__device__ inline bool takesEffect(const Control* decision) {
  return decision == nullptr || decision->takesEffect != 0;
}
// Whether entries may leave acc. What is decided is carried out whole: of what is found meanwhile, an abort among it, one
// kernel of a step would know and another one not, or one thread and not the next.
__device__ inline bool entriesLeave(const Control* decision, const Finding* finding) {
  return decision != nullptr ? takesEffect(decision) : sound(finding);
}
#endif

void conclude(const ConcludeArgs& args, DeviceContext& device, Stream stream);
void restore(void* x, const void* before, sparsecollDataType_t type, uint64_t n, const Control* decision,
             DeviceContext& device, Stream stream);

}  // namespace sparsecoll::cuda
