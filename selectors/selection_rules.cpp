#include "selectors/rules.h"

namespace sparsecoll {

namespace {

// Entries are counted as lost when the residual is settled, which comes after this.
SC_BOTH void advance(Control& control) {
  ++control.iteration;
  control.totals.nonFinite += control.anyNonFinite != 0 ? 1 : 0;
  control.totals.overflows += control.overflows != 0 ? 1 : 0;
  control.totals.fallbacks += control.fallbacks != 0 ? 1 : 0;
  control.totals.lost += control.lost;
  control.lost = 0;
}

}  // namespace

constinit const Rule kAdvance = ruleOf<advance>("advance");

}  // namespace sparsecoll
