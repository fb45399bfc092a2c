// One list, or two, to one: what a tree of ranks does in every round.
#pragma once

#include "core/kernels.h"
#include "host/isa.h"

namespace sparsecoll::host {

// Merges and returns true; false where only the walk over tiles will do: it also names what is wrong with a list.
bool mergePair(const MergeArgs& args, const Isa& isa);

}  // namespace sparsecoll::host
