// The control block: all state of a step that counts and thresholds live in. It lies in the memory of the kernels and
// only kernels and rules write it, so that a back end may keep it on a device and never ask the host (see
// core/kernels.h).
#pragma once

#include <cstdint>

#include "core/method_state.h"
#include "core/portable.h"
#include "sparsecoll/sparsecoll.h"

namespace sparsecoll {

inline constexpr uint32_t kHistogramBins = 8192;  // 8 exponent and 5 mantissa bits of a float's magnitude
inline constexpr uint32_t kFiniteBins = 8160;     // those below infinity's
inline constexpr uint32_t kMaxNonFiniteIndices = SPARSECOLL_NON_FINITE_NAMED;

// Whether the candidates of a pass decide an exact selection.
enum KeyOutcome : uint32_t { kKeyFits = 0, kKeyTooHigh = 1, kKeyTooLow = 2 };

// A stretch [begin, end) of the vector that is selected from as one unit: the whole vector, a tensor, a partition.
struct Window {
  uint64_t begin, end;
  uint64_t key;        // least |acc| bits that become candidates (inclusive)
  uint64_t limit;      // entries to keep
  uint64_t room;       // most entries a message has room for
  uint64_t firstSlot;  // its part of the candidate list
  uint64_t slots;
  uint64_t floor;    // least key of the candidates that the cut works on
  uint64_t found;    // candidates met; more than slots means that the list is incomplete
  uint64_t listed;   // candidates that the cut works on: found, but for arrivals and lists that were filled anew
  uint64_t kept;     // entries that go out
  uint64_t keptKey;  // entries above it were kept, and the first keptEquals of those equal to it
  uint64_t keptEquals;
  double spread;        // top-k: largest recent relative change of the smallest magnitude kept
  double keptBefore;    // top-k: that magnitude in the step before, 0 if there was none
  uint64_t forced;      // kNoForcedIndex, or what to send when nothing passes
  uint32_t exact;       // 1: keep exactly limit, 0: at most
  uint32_t keptForced;  // 1: what was kept is the forced index
  uint32_t missed;      // KeyOutcome of the pass
  uint32_t lazy;        // 1: the pass collects nothing, the cut reads acc; all such windows share their slots
  uint64_t least;       // where exact is 0: least key that is kept, if above `key`
};

inline constexpr uint64_t kNoForcedIndex = ~uint64_t{0};

struct NonFinite {
  uint32_t count;  // entries met, also beyond the indices kept
  uint32_t indices[kMaxNonFiniteIndices];
};

// What the header of a rank's frame announced.
struct RankFacts {
  uint32_t count;
  double threshold;
};

// Steps in which something happened, and entries lost, since the selection was made; the step under way not counted.
struct ControlTotals {
  uint64_t nonFinite;
  uint64_t overflows;
  uint64_t fallbacks;
  uint64_t lost;
};

struct Control {
  uint64_t bytes;  // of all, with the tables behind it
  uint64_t iteration;
  double threshold;    // the current one, of methods that have one
  double announced;    // what this rank's header tells the others in this step
  uint64_t k;          // entries requested in the unit that densityIsGlobal names
  uint32_t selected;   // entries this rank sends
  uint32_t largest;    // most entries of a rank
  uint64_t delivered;  // entries of all ranks
  uint64_t candidates;
  uint64_t lost;       // entries that left this rank's residual in the latest step that ended, and are in no sum
  uint64_t overflows;  // windows of this step that held more than they could send
  uint64_t fallbacks;  // windows of this step for which exact selection had to read the vector again
  ControlTotals totals;
  uint32_t rank, ranks;
  uint64_t seed;  // of what this rank draws
  uint64_t n;
  uint32_t anyNonFinite;  // some rank's header carried the flag in this step
  uint32_t windowCount;
  uint32_t isDouble;    // keys are those of doubles
  NonFinite nonFinite;  // this rank's
  Window* windows;      // windowCount of them, in index order, disjoint
  RankFacts* facts;     // ranks of them
  uint32_t* poison;     // ranks * kMaxNonFiniteIndices
  uint64_t poisonCount;
  uint32_t* histogram;     // kHistogramBins counts of a sample of this step's magnitudes; nullptr: none is taken
  uint64_t sampled;        // elements counted
  MethodState selector;    // what only the selector's rules know
  MethodState collective;  // and the collective's
  uint32_t takesEffect;    // 1: what the latest step delivered leaves the residual; 0: the step came to nothing
  double selectedWith;     // the threshold of the latest step, where a rule has moved it on since; else 0
};

// For rules that end a step: what it selected with is told.
SC_BOTH inline void moveThreshold(Control& control, double next) {
  control.selectedWith = control.threshold;
  control.threshold = next;
}

}  // namespace sparsecoll
