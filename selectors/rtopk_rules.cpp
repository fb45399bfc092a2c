#include <algorithm>

#include "core/list_span.h"
#include "selectors/draws.h"

namespace sparsecoll {

namespace {

// The list as a ring that begins at place `start`.
struct Ring {
  uint64_t start;
  uint64_t wrap;    // so many places are left before the list begins anew
  uint64_t before;  // so many are drawn of them
};

SC_BOTH Ring ringOf(uint64_t length, uint64_t k, uint64_t seed) {
  Ring ring;
  ring.start = drawBelow(length, ~seed);
  ring.wrap = length - ring.start;
  ring.before = k;
  if (ring.start == 0) return ring;
  const uint64_t stretch = ((ring.wrap + 1) * k - 1) / length;  // has the place where the list begins anew
  ring.before = stretch + (Strata(length, k, {stretch, 1}).draw(seed) < ring.wrap ? 1 : 0);
  return ring;
}

template <class A>
SC_BOTH void drawFrom(const ListRuleArgs& args, const Share& share) {
  Control& control = *args.control;
  const ListSpan<A> list = spanOf<A>(args.from);
  const uint64_t k = std::min<uint64_t>(control.k, list.count);
  if (share.first == 0) {
    control.selected = static_cast<uint32_t>(k);
    *args.to.count = control.selected;
  }
  if (k == 0) return;
  const uint64_t seed = drawSeed(control);
  const Ring ring = ringOf(list.count, k, seed);
  const ListSlots<A> to = slotsOf<A>(args.to, k);
  for (Strata strata(list.count, k, share); strata.left(); strata.next()) {
    const uint64_t drawn = strata.draw(seed);
    const bool wraps = drawn >= ring.wrap;
    const uint64_t from = wraps ? drawn - ring.wrap : drawn + ring.start;
    const uint64_t slot = wraps ? strata.index() - ring.before : strata.index() + (k - ring.before);
    to.indices[slot] = list.indices[from];
    to.values[slot] = list.values[from];
  }
}

SC_BOTH void drawOfTop(const ListRuleArgs& args, const Share& share) {
  args.control->isDouble != 0 ? drawFrom<double>(args, share) : drawFrom<float>(args, share);
}

}  // namespace

constinit extern const ListRule kRandomOfTopDraw = listRuleOf<drawOfTop>("rtopk-draw");

}  // namespace sparsecoll
