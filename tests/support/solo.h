// A crew of one, for tests of the functions that rules are made of.
#pragma once

#include "core/crew.h"

namespace sparsecoll::test {

inline Crew solo() {
  static CrewMemory memory;
  return Crew(memory);
}

}  // namespace sparsecoll::test
