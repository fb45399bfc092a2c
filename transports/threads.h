// The in-process engine: ranks are threads of one process and read each other's frames where they lie.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "core/kernels.h"
#include "core/memory.h"
#include "core/transport.h"

namespace sparsecoll {

// Transports of a new group, one a rank. kernels: each rank's; they may be the same, which then are used by several
// threads at once. budgets: where each rank's windows are accounted.
Result<std::vector<std::unique_ptr<Transport>>> makeThreadsTransports(
    std::span<const std::shared_ptr<Kernels>> kernels, std::vector<std::shared_ptr<MemoryBudget>> budgets);

}  // namespace sparsecoll
