// The collectives, one maker each. A new algorithm adds its file and a line here.
#pragma once

#include "collectives/collective.h"

namespace sparsecoll {

Result<std::unique_ptr<Collective>> makeAllGather(const CollectiveSetup& setup);
Result<std::unique_ptr<Collective>> makeIndexUnion(const CollectiveSetup& setup);
Result<std::unique_ptr<Collective>> makeGTopK(const CollectiveSetup& setup);
Result<std::unique_ptr<Collective>> makeSparDL(const CollectiveSetup& setup);
// What AllGather is for a selection by chunks.
Result<std::unique_ptr<Collective>> makeChunkGather(const CollectiveSetup& setup);
Result<std::unique_ptr<Collective>> makeOkTopk(const CollectiveSetup& setup);
Result<std::unique_ptr<Collective>> makeRecursiveDoubling(const CollectiveSetup& setup);
Result<std::unique_ptr<Collective>> makeSplitGather(const CollectiveSetup& setup);
Result<std::unique_ptr<Collective>> makeTopkDSA(const CollectiveSetup& setup);

}  // namespace sparsecoll
