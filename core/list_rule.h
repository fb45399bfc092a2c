// List rules: how a method writes a list, or reads one, where no kernel does it for all methods, in code that host and
// devices share. A rule is a function marked SC_BOTH that every thread runs for its share of the items; no thread sees
// what the others write.
#pragma once

#include "core/list.h"
#include "core/rule.h"

namespace sparsecoll {

struct ListRuleArgs {
  Control* control = nullptr;
  const void* acc = nullptr;  // control->n elements
  ListView from;              // of rules that read a list
  List to;                    // of rules that write one
};

// The items that one thread works on: first, first + step, and so on.
struct Share {
  uint64_t first;
  uint64_t step;
};

struct ListRule {
  const char* name;
  void (*onHost)(const ListRuleArgs& args);
  // A kernel of any grid. It does nothing where *found is not 0: then lists need not be what they were checked to be.
  void (*onDevice)(ListRuleArgs args, const uint32_t* found);
};

template <void (*kWork)(const ListRuleArgs&, const Share&)>
void workAlone(const ListRuleArgs& args) {
  kWork(args, {0, 1});
}

#if SC_DEVICE_CODE
template <void (*kWork)(const ListRuleArgs&, const Share&)>
__global__ void workTogether(ListRuleArgs args, const uint32_t* found) {
  if (__ldcg(found) != 0) return;
  kWork(args, {blockIdx.x * uint64_t{blockDim.x} + threadIdx.x, gridDim.x * uint64_t{blockDim.x}});
}
template <void (*kWork)(const ListRuleArgs&, const Share&)>
constexpr ListRule listRuleOf(const char* name) {
  (void)&Listed<workTogether<kWork>>::is;
  return {name, workAlone<kWork>, workTogether<kWork>};
}
#else
template <void (*kWork)(const ListRuleArgs&, const Share&)>
constexpr ListRule listRuleOf(const char* name) {
  return {name, workAlone<kWork>, nullptr};
}
#endif

}  // namespace sparsecoll
