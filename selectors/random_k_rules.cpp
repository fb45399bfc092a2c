#include <algorithm>

#include "core/list_span.h"
#include "core/prefetch.h"
#include "selectors/draws.h"
#include "selectors/rules.h"

namespace sparsecoll {

namespace {

template <class A>
SC_BOTH void drawFrom(const A* acc, const ListRuleArgs& args, uint64_t k, const Share& share) {
  const uint64_t seed = drawSeed(*args.control);
  const ListSlots<A> to = slotsOf<A>(args.to, k);
  for (Strata strata(args.control->n, k, share); strata.left(); strata.next())
    to.indices[strata.index()] = static_cast<uint32_t>(strata.draw(seed));
  const uint64_t ahead = kAhead * share.step;
  for (uint64_t j = share.first; j < k; j += share.step) {
    if (j + ahead < k) askFor(acc + to.indices[j + ahead]);
    to.values[j] = acc[to.indices[j]];
  }
}

// Entries of acc without regard to their magnitudes.
SC_BOTH void draw(const ListRuleArgs& args, const Share& share) {
  Control& control = *args.control;
  const uint64_t k = std::min(control.k, control.n);
  if (share.first == 0) {
    control.selected = static_cast<uint32_t>(k);
    *args.to.count = control.selected;
  }
  if (k == 0) return;
  if (control.isDouble != 0)
    drawFrom(static_cast<const double*>(args.acc), args, k, share);
  else
    drawFrom(static_cast<const float*>(args.acc), args, k, share);
}

}  // namespace

constinit const ListRule kRandomDraw = listRuleOf<draw>("draw");

}  // namespace sparsecoll
