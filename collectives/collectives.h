// The collectives, one maker each. A new algorithm adds its file and a line here.
#pragma once

#include "collectives/collective.h"

namespace sparsecoll {

Result<std::unique_ptr<Collective>> makeAllGather(const CollectiveSetup& setup);
Result<std::unique_ptr<Collective>> makeIndexUnion(const CollectiveSetup& setup);
Result<std::unique_ptr<Collective>> makeGTopK(const CollectiveSetup& setup);
Result<std::unique_ptr<Collective>> makeSparDL(const CollectiveSetup& setup);

}  // namespace sparsecoll
