// Some ranks of an engine as an engine of their own, for what goes on among them inside an operation of all.
#pragma once

#include <memory>
#include <vector>

#include "core/transport.h"

namespace sparsecoll {

// members: ranks in their new order, this one among them. all: begins and ends the operations; it stays as long as what
// is made here.
std::unique_ptr<Transport> amongSomeRanks(Transport& all, std::vector<int> members);

}  // namespace sparsecoll
