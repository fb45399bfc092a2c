// The in-process engine: ranks are threads of one process and read each other's frames where they lie.
#pragma once

#include <memory>
#include <vector>

#include "core/kernels.h"
#include "core/memory.h"
#include "core/transport.h"

namespace sparsecoll {

// Transports of a new group, one a rank. budgets: where each rank's windows are accounted; kernels: shared,
// thread-safe.
std::vector<std::unique_ptr<Transport>> makeThreadsTransports(int ranks, std::shared_ptr<Kernels> kernels,
                                                              std::vector<std::shared_ptr<MemoryBudget>> budgets);

}  // namespace sparsecoll
