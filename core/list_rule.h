// List rules: how a method writes a list, or reads one, where no kernel does it for all methods, in code that host and
// devices share. A rule is a function marked SC_BOTH that every thread runs for its share of the items; no thread sees
// what the others write. What a rule finds wrong it reports as a finding: the host's kernels return it at once, a
// device's keep it like their own.
#pragma once

#include "core/finding.h"
#include "core/list.h"
#include "core/rule.h"

namespace sparsecoll {

struct ListRuleArgs {
  Control* control = nullptr;
  const void* acc = nullptr;          // control->n elements
  ListView from;                      // of rules that read a list
  List to;                            // of rules that write one
  const uint64_t* numbers = nullptr;  // what else the rule reads, in the kernels' memory
};

// The items that one thread works on: first, first + step, and so on.
struct Share {
  uint64_t first;
  uint64_t step;
  Finding* finding = nullptr;  // of all threads

  // A list is not what it has to be, which is Corrupted. Only the first report is kept.
  SC_BOTH void refuse(Found what, uint64_t value, uint64_t limit) const {
#if defined(__CUDA_ARCH__)
    report(finding, sparsecollCorrupted, -1, what, value, limit);
#else
#if defined(SPARSECOLL_SIMT)
    if (step != 1) return report(finding, sparsecollCorrupted, -1, what, value, limit);
#endif
    if (finding->result == 0) *finding = {sparsecollCorrupted, -1, static_cast<uint32_t>(what), value, limit};
#endif
  }
};

struct ListRule {
  const char* name;
  void (*onHost)(const ListRuleArgs& args, Finding& finding);
  // A kernel of any grid. It does nothing where something was found: then lists need not be what they were checked to
  // be.
  void (*onDevice)(ListRuleArgs args, Finding* finding);
};

template <void (*kWork)(const ListRuleArgs&, const Share&)>
void workAlone(const ListRuleArgs& args, Finding& finding) {
  kWork(args, {0, 1, &finding});
}

#if SC_DEVICE_CODE
template <void (*kWork)(const ListRuleArgs&, const Share&)>
__global__ void workTogether(ListRuleArgs args, Finding* finding) {
  if (__ldcg(&finding->result) != 0) return;
  kWork(args, {blockIdx.x * uint64_t{blockDim.x} + threadIdx.x, gridDim.x * uint64_t{blockDim.x}, finding});
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
