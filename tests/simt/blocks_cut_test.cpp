#include "tests/simt/at_once.h"
#include "tests/simt/cuts.h"

namespace sparsecoll::test {
namespace {

TEST_CASE("passes and cuts by blocks at once") {
  const Cuts cuts;
  for (const uint64_t seed : kSeedsAtOnce) {
    CAPTURE(seed);
    const AtOnce scope(seed);
    CHECK(cuts.areRight());
  }
}

}  // namespace
}  // namespace sparsecoll::test
