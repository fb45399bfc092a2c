// Whole steps whose grids have blocks that run at once: the host's bits. Under ThreadSanitizer blocks must do nothing
// to each other that fences and atomics do not order.
#include "tests/simt/at_once.h"
#include "tests/support/group.h"
#include "tests/support/same_steps.h"

namespace sparsecoll::test {
namespace {

#ifdef SPARSECOLL_TEST_SANITIZED
constexpr uint64_t kLength = 9001;
constexpr int kSteps = 1;
#else
constexpr uint64_t kLength = 40009;
constexpr int kSteps = 2;
#endif

// Together they launch most kernels there are, of these nearly all with several blocks.
struct Steps {
  const char* preset;
  double density;
  double clipNorm;
};
constexpr Steps kCases[] = {{"topka", 0.02, 3}, {"micro", 0.02, 0},     {"deft", 0.05, 0},        {"spardl", 0.3, 0},
                            {"oktopk", 0.3, 0}, {"exdyna", 0.05, 0},    {"redsync", 0.02, 0},     {"randomk", 0.05, 0},
                            {"rtopk", 0.05, 0}, {"chunk-topk", 0.1, 0}, {"sparcml-split", 0.3, 0}};

void checkSteps(const Steps& steps) {
  constexpr int kRanks = 2;
  sparsecollParams_t params = preset(steps.preset, steps.density);
  params.clipNorm = steps.clipNorm;
  Group host(kRanks, kLength, sparsecollFloat32, params);
  Group device(kRanks, kLength, sparsecollFloat32, params, nullptr, nullptr, kDevice);
  checkSameSteps(host, device, kSteps);
}

TEST_CASE("steps by blocks at once") {
  for (const Steps& steps : kCases)
    for (const uint64_t seed : kSeedsAtOnce) {
      CAPTURE(steps.preset, seed);
      const AtOnce scope(seed);
      checkSteps(steps);
    }
}

}  // namespace
}  // namespace sparsecoll::test
