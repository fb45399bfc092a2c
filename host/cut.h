// Exact selection of the largest magnitudes.
#pragma once

#include "core/kernels.h"
#include "host/isa.h"

namespace sparsecoll::host {

void countTrials(const TrialArgs& args, const Isa& isa);
void cut(const CutArgs& args, const Isa& isa);

}  // namespace sparsecoll::host
