// One threshold for all ranks, which select in exclusive partitions (MiCRO, ExDyna). The methods differ in how they cut
// the vector; how the threshold moves is here and in ladder.h.
//
// Default: the pass collects what reaches a key a little below the last threshold. Every rank counts its candidates
// at the trials of a ladder of thresholds and tells the others. From the sums all ranks read off the same threshold, at
// which k entries pass in this very step. Where the ladder does not reach (first step, a jump), every rank selects
// exactly its share of k, and the smallest magnitudes it sent are the next ladder's ends.
#pragma once

#include "selectors/selection.h"

namespace sparsecoll {

// Fills what MiCRO and ExDyna have in common. roomShare: messages hold this many times k / P; longest: most entries of
// a partition. The plan's rules are for default and faithful mode; those that are nullptr here stay so.
void planSharedThreshold(const SelectionRequest& request, double roomShare, uint64_t longest, SelectionPlan& plan);

}  // namespace sparsecoll
