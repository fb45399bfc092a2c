// List rules (core/list_rule.h) that a crew runs (core/crew.h): for numbers of the whole vector. A crew is one block on
// a device, so this is for faithful methods; others take a sample.
#pragma once

#include "core/crew.h"
#include "core/list_rule.h"

namespace sparsecoll {

template <void (*kWork)(const ListRuleArgs&, const Crew&)>
void workAsOne(const ListRuleArgs& args, Finding&) {
  CrewMemory memory;
  kWork(args, Crew(memory));
}

#if SC_DEVICE_CODE
template <void (*kWork)(const ListRuleArgs&, const Crew&)>
__global__ void __launch_bounds__(kCrew, 1) workAsCrew(ListRuleArgs args, Finding* finding) {
  if (blockIdx.x != 0 || __ldcg(&finding->result) != 0) return;
  __shared__ CrewMemory memory;
  kWork(args, Crew(memory, threadIdx.x, blockDim.x));
}
// Applied to one item, so that there is one block.
template <void (*kWork)(const ListRuleArgs&, const Crew&)>
constexpr ListRule crewListRuleOf(const char* name) {
  (void)&Listed<workAsCrew<kWork>>::is;
  return {name, workAsOne<kWork>, workAsCrew<kWork>};
}
#else
template <void (*kWork)(const ListRuleArgs&, const Crew&)>
constexpr ListRule crewListRuleOf(const char* name) {
  return {name, workAsOne<kWork>, nullptr};
}
#endif

}  // namespace sparsecoll
