// Included before rules where a test compiles them: whenever the host applies one, device code does too, on
// the same control block, and what the two leave is compared.
#pragma once

#include <cuda_runtime.h>

#include <string>

#include "core/crew.h"

namespace sparsecoll::test {

struct RuleCheck {
  const char* name;
  const char* file;
  void (*onHost)(Control&);
  void (*onDevice)(Control*);
  uint32_t threads;
};

// Makes the rule known before main.
bool announce(const RuleCheck& rule);
// Leaves what the host left.
void applyBoth(const RuleCheck& rule, Control& control);

template <void (*kUpdate)(Control&)>
constexpr RuleCheck checkOf() {
  return {__PRETTY_FUNCTION__, __BASE_FILE__, kUpdate, runRule<kUpdate>, 1};
}
template <void (*kUpdate)(Control&, const Crew&)>
constexpr RuleCheck checkOf() {
  return {__PRETTY_FUNCTION__, __BASE_FILE__, runAlone<kUpdate>, runCrew<kUpdate>, kCrew};
}
template <auto kUpdate>
const bool kAnnounced = announce(checkOf<kUpdate>());

template <auto kUpdate>
void checked(Control& control) {
  if (kAnnounced<kUpdate>) applyBoth(checkOf<kUpdate>(), control);
}

}  // namespace sparsecoll::test

namespace sparsecoll {

// kUpdate: of one thread, or of a crew.
template <auto kUpdate>
constexpr Rule checkedRuleOf(const char* name) {
  return {name, test::checked<kUpdate>, test::checkOf<kUpdate>().onDevice, test::checkOf<kUpdate>().threads};
}

}  // namespace sparsecoll

#define ruleOf checkedRuleOf
