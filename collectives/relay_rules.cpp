#include "collectives/rules.h"

namespace sparsecoll {

namespace {

SC_BOTH void forgetNonFinite(Control& control) {
  control.anyNonFinite = 0;
  control.poisonCount = 0;
}

SC_BOTH void noteNonFinite(Control& control) {
  if (control.nonFinite.count != 0) control.anyNonFinite = 1;
}

}  // namespace

constinit const Rule kRelayBegin = ruleOf<forgetNonFinite>("relay-begin");
constinit const Rule kRelayNote = ruleOf<noteNonFinite>("relay-note");

}  // namespace sparsecoll
