#pragma once

#include <cstdint>

#include "core/portable.h"

namespace sparsecoll {

// B-SAG: how many entries a team contributes to a block so that the teams' sum has about as many as are wanted (A5).
struct TeamShare {
  double entries;
  double step;       // of the next change, with its sign
  double confirmed;  // 1: the last step was in the right direction, too
};
struct SparDLState {
  double entries, step, confirmed;  // the share
  double wanted;                    // the entries that it is of; 0: there is none yet
  uint32_t teams;
  uint32_t merged;  // entries of the teams' sum of a block, before it was cut
};
SC_BOTH TeamShare firstShare(double wanted, double teams);
// merged: entries that the sum had. freezes: a step of 0 stays 0, as published; else the least step is 1.
SC_BOTH TeamShare nextShare(const TeamShare& share, double merged, double wanted, double teams, bool freezes);

}  // namespace sparsecoll
