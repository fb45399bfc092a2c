#include "selectors/swept.h"

#include <algorithm>

namespace sparsecoll {

namespace {

constexpr uint64_t kSpare = 16384;  // slots for the sample that a cut without candidates takes (host/cut.cpp)
constexpr uint64_t kSpareOfTensor = 256;

}  // namespace

SelectionPlan planSwept(const SelectionRequest& request, const ListRule& rule, uint64_t room, bool byTensor) {
  const Wanted wanted = wantedOf(request);
  SelectionPlan plan;
  plan.k = wanted.now;
  plan.mostEntries = wanted.most;
  plan.capacity = std::min(request.n, room * wanted.most);
  plan.fromAcc = &rule;
  const auto add = [&](uint64_t begin, uint64_t end, uint64_t spare) {
    WindowPlan window;
    window.begin = begin;
    window.end = end;
    window.room = std::min(end - begin, plan.capacity);
    window.slots = std::min(end - begin, window.room + spare);
    window.key = infinityKey(request.accumulateType == sparsecollFloat64);
    plan.windows.push_back(window);
  };
  if (!byTensor || request.segments.empty()) {
    add(0, request.n, kSpare);
    return plan;
  }
  uint64_t begin = 0;
  for (const sparsecollSegment_t& segment : request.segments) {
    add(begin, begin + segment.length, kSpareOfTensor);
    begin += segment.length;
  }
  return plan;
}

}  // namespace sparsecoll
