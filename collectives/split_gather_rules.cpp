#include "collectives/split_gather.h"

#include "collectives/rules.h"
#include "core/crew.h"

namespace sparsecoll {

namespace {

struct Counts {
  uint64_t sum;
  uint64_t largest;

  SC_BOTH void operator+=(const Counts& more) {
    sum += more.sum;
    largest = more.largest > largest ? more.largest : largest;
  }
};

SC_BOTH void note(Control& control, const Crew& crew) {
  SplitGatherState& state = control.collective.as<SplitGatherState>();
  const Counts all = crew.sum<Counts>(0, control.ranks, [&](uint64_t r) {
    return Counts{state.counts[r], state.counts[r]};
  });
  crew.alone([&] {
    control.delivered = all.sum;
    control.largest = static_cast<uint32_t>(all.largest);
    state.dense = all.sum >= state.denseFrom ? 1 : 0;
  });
}

}  // namespace

constinit const Rule kSplitGatherNote = ruleOf<note>("split-note");

}  // namespace sparsecoll
