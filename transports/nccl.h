// The engine between devices of any processes: NCCL, found at run time. Everything but waiting happens on the caller's
// stream. A build without CUDA has the functions, too: they refuse.
#pragma once

#include <array>
#include <cstddef>
#include <memory>

#include "core/kernels.h"
#include "core/memory.h"
#include "core/transport.h"

struct ncclComm;

namespace sparsecoll::nccl {

// Of the NCCL that can be used. Any thread. Errors: Unsupported (there is none, and why).
Result<int> version();

// An ncclUniqueId.
using Id = std::array<std::byte, 128>;
// Errors: Unsupported, SystemError, InternalError.
Result<Id> makeId();

// The device of a communicator. Errors: Unsupported, CudaError, InvalidArgument.
Result<int> deviceOf(ncclComm* comm);

// What a rank's engine stands on.
struct NcclSetup {
  std::shared_ptr<Kernels> kernels;      // of the current device
  std::shared_ptr<MemoryBudget> budget;  // of its windows
  Deadline deadline;                     // of making the engine
  uint64_t abortTimeoutMs;               // to return from an abort within
};

// Collective. Errors: what NCCL's are mapped to, Timeout, OutOfMemory.
Result<std::unique_ptr<Transport>> makeTransport(const NcclSetup& setup, int ranks, int rank, const Id& id);
// split: over a copy of the communicator, else over the very one, which is left as it is at the end.
Result<std::unique_ptr<Transport>> makeTransport(const NcclSetup& setup, ncclComm* comm, bool split);

}  // namespace sparsecoll::nccl
