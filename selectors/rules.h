// The selectors' rules. They stand apart from the plans that name them: devices run rules, and a device's compiler is
// given no more than it needs.
#pragma once

#include <algorithm>
#include <cmath>

#include "core/list_rule.h"
#include "core/rule.h"

namespace sparsecoll {

extern const Rule kAdvance;       // the step is over
extern const Rule kCorrectShare;  // closed_loop.h; after the cut
extern const Rule kReadLadder;    // shared_threshold.h; after the survey
extern const Rule kTellShare;     // shared_threshold.h; after the cut

extern const Rule kDeftShare, kDeftShareAsPublished;
extern const Rule kExDynaBefore, kExDynaAfter, kExDynaBeforeFaithful, kExDynaAfterFaithful;
extern const Rule kGaussianDefault;
extern const ListRule kGaussianOfShi, kGaussianOfOkTopk;
extern const Rule kLeaderTakeTurn, kLeaderNoteKey;
extern const Rule kMicroBefore, kMicroAfter, kMicroBeforeFaithful, kMicroAfterFaithful;
extern const ListRule kRandomDraw;
extern const Rule kRedSyncDefault;
extern const ListRule kRedSyncFaithful;
extern const Rule kReuseBefore, kReuseTakeLargest, kReuseAfterCut, kReuseAfterCutFaithful;
extern const ListRule kReuseFaithful;
extern const Rule kSageDefault;
extern const ListRule kSageFaithful, kSageFaithfulByTensor;
extern const Rule kSampledDefault, kSelectAgain;
extern const ListRule kSampledFaithful, kSampledFirst;
// What kSelectAgain takes for far more than k.
inline SC_BOTH uint64_t mostSampled(uint64_t k) { return k + k / 3; }
// Faithful: what a tensor sends of its entries, and more than what are so many that the largest of them do.
inline SC_BOTH uint64_t tensorShare(uint64_t length, double share) {
  return std::min(length, static_cast<uint64_t>(std::ceil(static_cast<double>(length) * share)));
}
inline SC_BOTH uint64_t mostBeforeTop(uint64_t entries) {
  return static_cast<uint64_t>(1.3 * static_cast<double>(entries));
}
extern const Rule kSidcoAdaptStages;
extern const Rule kTopKAfterCut;

struct SidcoRules {
  Rule fitDefault;
  ListRule fitFaithful;
};
const SidcoRules& sidcoRulesOf(sparsecollDistribution_t distribution);

}  // namespace sparsecoll
