// Ranks on devices over an engine of messages, which works in host memory: frames pass through pinned memory, and a
// thread of the communicator goes through the engine's operations while the callers' streams wait for it. A build
// without CUDA has the functions, too: they refuse.
#pragma once

#include <memory>

#include "core/kernels.h"
#include "core/memory.h"
#include "core/transport.h"

namespace sparsecoll::staged {

// Pinned memory that streams copy to and from. It goes back once what the device's kernels have enqueued is over.
// Errors: Unsupported.
Result<std::shared_ptr<MemorySource>> pinnedMemory(int device, std::shared_ptr<Kernels> kernels);

// What a rank's engine stands on.
struct StagedSetup {
  std::shared_ptr<Kernels> kernels;      // of the device
  std::shared_ptr<Kernels> pinned;       // the host's, whose memory is pinned
  std::shared_ptr<MemoryBudget> budget;  // of its windows
  int device = 0;
};

// engine: does not share memory. Errors: Unsupported (a driver without stream memory
// operations), OutOfMemory, CudaError.
Result<std::unique_ptr<Transport>> makeTransport(const StagedSetup& setup, std::unique_ptr<Transport> engine);

}  // namespace sparsecoll::staged
