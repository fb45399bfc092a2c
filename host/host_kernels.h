// Kernels on host memory.
#pragma once

#include <memory>

#include "core/kernels.h"
#include "host/isa.h"

namespace sparsecoll::host {

std::unique_ptr<Kernels> makeHostKernels(const Isa& isa = bestIsa());

}  // namespace sparsecoll::host
