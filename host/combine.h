#pragma once

#include "core/kernels.h"
#include "host/isa.h"

namespace sparsecoll::host {

Status combine(const CombineArgs& args, const Isa& isa);

}  // namespace sparsecoll::host
