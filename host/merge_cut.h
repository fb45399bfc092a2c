// Sums of lists that are cut down again, or become a run.
#pragma once

#include "core/kernels.h"
#include "host/isa.h"

namespace sparsecoll::host {

Status mergeCut(const MergeCutArgs& args, const Isa& isa);
Status stream(const StreamArgs& args, const Isa& isa);
Status join(const JoinArgs& args);

}  // namespace sparsecoll::host
