// Rules: deterministic updates of the control block between kernels. A rule is a function marked SC_BOTH; where its
// file is compiled for devices too, ruleOf also makes the kernel that runs it there, with one thread. Rules with more
// work than one thread should do: core/crew.h.
#pragma once

#include "core/control.h"
#include "core/kernel_table.h"
#include "core/portable.h"

namespace sparsecoll {

struct Rule {
  const char* name;
  void (*onHost)(Control& control);
  void (*onDevice)(Control* control);  // a kernel of one block; nullptr in a library without devices
  uint32_t threads;                    // of that block
};

#if SC_DEVICE_CODE
template <void (*kUpdate)(Control&)>
__global__ void runRule(Control* control) {
  kUpdate(*control);
}
template <void (*kUpdate)(Control&)>
constexpr Rule ruleOf(const char* name) {
  (void)&Listed<runRule<kUpdate>>::is;
  return {name, kUpdate, runRule<kUpdate>, 1};
}
#else
template <void (*kUpdate)(Control&)>
constexpr Rule ruleOf(const char* name) {
  return {name, kUpdate, nullptr, 1};
}
#endif

}  // namespace sparsecoll
