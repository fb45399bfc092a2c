// MiCRO (Yoon and Oh, HiPC 2023, arXiv:2310.00967): rank r selects only in partition (t + r) mod P, by one threshold
// that all ranks share (shared_threshold.h).
//
// Faithful: first threshold 1 / (2 sqrt(k)); afterwards times 1.005 above k / 0.909, times 1.00125 inside the band (the
// published code never takes its other branch there), times 0.995 below; an empty selection sends one forced index.
#include "core/partition.h"
#include "selectors/selectors.h"
#include "selectors/shared_threshold.h"

namespace sparsecoll {

namespace {

constexpr double kRoom = 2.5;  // messages hold this many times k / P

void takeTurn(Control& control) {
  const Range part =
      evenPart(control.n, control.ranks, (control.iteration % control.ranks + control.rank) % control.ranks);
  control.windows[0].begin = part.begin;
  control.windows[0].end = part.end;
}

void before(Control& control) {
  takeTurn(control);
  climbLadder(control);
}

void beforeFaithful(Control& control) {
  takeTurn(control);
  startFaithful(control);
}

constexpr Rule kBefore = ruleOf<before>("micro-before");
constexpr Rule kAfter = ruleOf<noteThreshold>("micro-after");
constexpr Rule kBeforeFaithful = ruleOf<beforeFaithful>("micro-faithful-before");
constexpr Rule kAfterFaithful = ruleOf<moveFaithful>("micro-faithful-after");

}  // namespace

Result<SelectionPlan> planMicro(const SelectionRequest& request) {
  const auto ranks = static_cast<uint64_t>(request.ranks);
  SelectionPlan plan;
  planSharedThreshold(request, kRoom, (request.n + ranks - 1) / ranks, plan);
  plan.before = request.faithful ? &kBeforeFaithful : &kBefore;
  plan.afterExchange = request.faithful ? &kAfterFaithful : &kAfter;
  return plan;
}

}  // namespace sparsecoll
