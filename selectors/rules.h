// The selectors' rules. They stand apart from the plans that name them: devices run rules, and a device's compiler is
// given no more than it needs.
#pragma once

#include "core/list_rule.h"
#include "core/rule.h"

namespace sparsecoll {

extern const Rule kAdvance;       // the step is over
extern const Rule kCorrectShare;  // closed_loop.h; after the cut
extern const Rule kReadLadder;    // shared_threshold.h; after the survey
extern const Rule kTellShare;     // shared_threshold.h; after the cut

extern const Rule kDeftShare, kDeftShareAsPublished;
extern const Rule kExDynaBefore, kExDynaAfter, kExDynaBeforeFaithful, kExDynaAfterFaithful;
extern const Rule kGaussianDefault, kGaussianOfShi, kGaussianOfOkTopk;
extern const Rule kLeaderTakeTurn, kLeaderNoteKey;
extern const Rule kMicroBefore, kMicroAfter, kMicroBeforeFaithful, kMicroAfterFaithful;
extern const ListRule kRandomDraw;
extern const Rule kRedSyncDefault, kRedSyncFaithful;
extern const Rule kReuseBefore, kReuseTakeLargest, kReuseAfterCut, kReuseBeforeFaithful, kReuseAfterCutFaithful;
extern const Rule kSageDefault, kSageFaithful;
extern const Rule kSampledDefault, kSampledFaithful, kSelectAgain;
// What kSelectAgain takes for far more than k.
inline SC_BOTH uint64_t mostSampled(uint64_t k) { return k + k / 3; }
extern const Rule kSidcoAdaptStages;
extern const Rule kTopKAfterCut;

struct SidcoRules {
  Rule fitDefault;
  Rule fitFaithful;
};
const SidcoRules& sidcoRulesOf(sparsecollDistribution_t distribution);

}  // namespace sparsecoll
