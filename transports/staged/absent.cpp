// What a library without the CUDA back end says of ranks on devices.
#include "transports/staged.h"

namespace sparsecoll::staged {

Result<std::shared_ptr<MemorySource>> pinnedMemory(int, std::shared_ptr<Kernels>) {
  return unsupported("this build has no CUDA back end");
}

Result<std::unique_ptr<Transport>> makeTransport(const StagedSetup&, std::unique_ptr<Transport>) {
  return unsupported("this build has no CUDA back end");
}

}  // namespace sparsecoll::staged
