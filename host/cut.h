// Exact selection of the largest magnitudes.
#pragma once

#include "core/kernels.h"

namespace sparsecoll::host {

void cut(const CutArgs& args);

}  // namespace sparsecoll::host
