// Functions that only tell have no result by which they could say that memory ran out: they take none (T66).
#include <sparsecoll/sparsecoll.h>

#include <iostream>

#include "tests/support/catch.h"
#include "tests/support/malloc_hooks.h"

using namespace sparsecoll::test;

TEST_CASE("what only tells takes no memory") {
  if (!memory::hooked()) {
    std::cout << "skipped: the sanitizer has an allocator of its own\n";
    return;
  }
  const auto takesNone = [](auto call, auto... arguments) {
    memory::refuseAfter(0);
    (void)call(arguments...);
    const bool refused = memory::refused();
    memory::refuseNone();
    return !refused;
  };
  CHECK(takesNone(sparsecollGetVersion));
  CHECK(takesNone(sparsecollGetBuildInfo));
  CHECK(takesNone(sparsecollGetLastError));
  CHECK(takesNone(sparsecollGetErrorString, sparsecollTimeout));
  for (const auto name : {sparsecollSelectorName, sparsecollCollectiveName, sparsecollDataTypeName,
                          sparsecollBackendName, sparsecollTransportName})
    CHECK((takesNone(name, 1) && takesNone(name, -1)));
  for (const auto preset : {sparsecollPresetName, sparsecollPresetPaper})
    CHECK((takesNone(preset, 0u) && takesNone(preset, 1000u)));
}
