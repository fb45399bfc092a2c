#include "core/partition.h"
#include "selectors/ladder.h"
#include "selectors/rules.h"

namespace sparsecoll {

namespace {

SC_BOTH void takeMicroTurn(Control& control) {
  const Range part =
      evenPart(control.n, control.ranks, (control.iteration % control.ranks + control.rank) % control.ranks);
  control.windows[0].begin = part.begin;
  control.windows[0].end = part.end;
}

SC_BOTH void beforeMicro(Control& control, const Crew& crew) {
  crew.alone([&] { takeMicroTurn(control); });
  climbLadder(control, crew);
}

SC_BOTH void beforeFaithfulMicro(Control& control) {
  takeMicroTurn(control);
  startFaithful(control);
}

}  // namespace

constinit const Rule kMicroBefore = ruleOf<beforeMicro>("micro-before");
constinit const Rule kMicroAfter = ruleOf<noteThreshold>("micro-after");
constinit const Rule kMicroBeforeFaithful = ruleOf<beforeFaithfulMicro>("micro-faithful-before");
constinit const Rule kMicroAfterFaithful = ruleOf<moveFaithful>("micro-faithful-after");

}  // namespace sparsecoll
