// Presets: methods as their papers put them together, under the names that sparsecollPreset takes.
#pragma once

#include <cstdint>

#include "sparsecoll/sparsecoll.h"

namespace sparsecoll {

// Stands in the file of whatever is particular to the preset: its selector, or its collective.
struct PresetRow {
  const char* name;
  const char* summary;
  const char* paper;
  sparsecollSelect_t selector;
  sparsecollColl_t collective;
  sparsecollDistribution_t distribution = sparsecollDistributionDefault;
  int32_t teams = 0;
  sparsecollTeamGather_t teamGather = sparsecollTeamGatherDefault;
  double momentum = 0;
};

}  // namespace sparsecoll
