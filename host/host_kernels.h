// Kernels on host memory.
#pragma once

#include <memory>

#include "core/kernels.h"
#include "host/isa.h"

namespace sparsecoll::host {

// memory: where theirs comes from; nullptr: the process's.
std::unique_ptr<Kernels> makeHostKernels(const Isa& isa = bestIsa(), std::shared_ptr<MemorySource> memory = nullptr);

}  // namespace sparsecoll::host
