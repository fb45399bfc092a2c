// The collectives' rules, apart from the collectives: devices run rules, and a device's compiler is given no more than
// it needs.
#pragma once

#include "core/list_rule.h"
#include "core/rule.h"

namespace sparsecoll {

extern const Rule kRelayBegin, kRelayNote;
extern const ListRule kChunkPack, kChunkUnpack;
extern const ListRule kSparDLCheckCounts;
extern const Rule kSparDLTakeShare, kSparDLPutBackLimit, kSparDLMoveShare, kSparDLMoveShareAsPublished;
extern const Rule kOkTopkBegin, kOkTopkEnd, kOkTopkEndFaithful;
extern const ListRule kOkTopkCutRegions;
extern const Rule kSplitGatherNote;

}  // namespace sparsecoll
