// Whole steps whose grids have blocks that run at once: the host's bits. Under ThreadSanitizer blocks must do nothing
// to each other that fences and atomics do not order.
#include "tests/simt/at_once.h"
#include "tests/support/group.h"

namespace sparsecoll::test {
namespace {

#ifdef SPARSECOLL_TEST_SANITIZED
constexpr uint64_t kLength = 12301;
constexpr uint64_t kSteps = 1;
const char* const kPresets[] = {"topka", "spardl"};
#else
constexpr uint64_t kLength = 40009;
constexpr uint64_t kSteps = 2;
const char* const kPresets[] = {"topka", "micro", "deft", "spardl", "oktopk", "exdyna"};
#endif

void checkSteps(const char* name) {
  constexpr int kRanks = 2;
  const sparsecollParams_t params = preset(name, 0.05);
  Group host(kRanks, kLength, sparsecollFloat32, params);
  Group device(kRanks, kLength, sparsecollFloat32, params, nullptr, nullptr, kDevice);
  REQUIRE(host.created() == all(kRanks, sparsecollSuccess));
  REQUIRE(device.created() == all(kRanks, sparsecollSuccess));
  for (uint64_t step = 0; step < kSteps; ++step) {
    CAPTURE(step);
    for (Group* const group : {&host, &device}) {
      group->fillRandom(step);
      REQUIRE(group->step() == all(kRanks, sparsecollSuccess));
    }
    for (size_t rank = 0; rank < kRanks; ++rank) {
      CAPTURE(rank);
      CHECK(device.outs[rank] == host.outs[rank]);
      CHECK(device.residual(static_cast<int>(rank)) == host.residual(static_cast<int>(rank)));
    }
  }
}

TEST_CASE("steps by blocks at once") {
  for (const char* const name : kPresets)
    for (const uint64_t seed : kSeedsAtOnce) {
      CAPTURE(name, seed);
      const AtOnce scope(seed);
      checkSteps(name);
    }
}

}  // namespace
}  // namespace sparsecoll::test
