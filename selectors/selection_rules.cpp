#include "selectors/rules.h"

namespace sparsecoll {

namespace {

SC_BOTH void advance(Control& control) { ++control.iteration; }

}  // namespace

constinit const Rule kAdvance = ruleOf<advance>("advance");

}  // namespace sparsecoll
