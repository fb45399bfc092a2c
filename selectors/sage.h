#pragma once

#include "selectors/sampled_threshold.h"

namespace sparsecoll {

struct SageState {
  ClosedLoop loop;
  double meanBefore;  // magnitude in the step before; 0: there was none
};

}  // namespace sparsecoll
