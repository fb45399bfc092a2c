#pragma once

#include "core/kernels.h"
#include "host/isa.h"

namespace sparsecoll::host {

Status merge(const MergeArgs& args, const Isa& isa);

}  // namespace sparsecoll::host
