// Whole steps of every preset on devices: the same bits as on the host, on every rank, in the sum and in the residual.
#include <bit>
#include <string>

#include "tests/device/checks.h"
#include "tests/support/group.h"
#include "tests/support/presets.h"
#include "tests/support/same_steps.h"

using namespace sparsecoll::test;

namespace {

constexpr int kRankCounts[] = {1, 2, 3, 8};
constexpr uint64_t kLength = 9001;  // three tiles
constexpr int kSteps = 4;

// Every fifth entry of one rank NaN, of many bits.
void spoil(std::vector<Elements>& gradients, int step) {
  Elements& gradient = gradients[static_cast<size_t>(step) % gradients.size()];
  for (uint64_t i = 0; i < gradient.size(); i += 5)
    gradient.set(i, std::bit_cast<double>(0xfff8000000000000u | (i * 2654435761u) % 1000 << 40));
}

enum class With { kFinite, kNaN };

void checkSteps(const std::string& name, int ranks, uint64_t n, double density, int faithful, int steps,
                With with = With::kFinite) {
  CAPTURE(name, ranks, n, density, faithful);
  sparsecollParams_t params = preset(name.c_str(), density);
  params.faithful = faithful;
  Group host(ranks, n, sparsecollFloat32, params);
  if (host.created()[0] == sparsecollUnsupported) return;
  Group device(ranks, n, sparsecollFloat32, params, nullptr, nullptr, kDevice);
  if (with == With::kNaN)
    checkSameSteps(host, device, steps, spoil);
  else
    checkSameSteps(host, device, steps);
  checkEmulation();
}

}  // namespace

TEST_CASE("steps on devices have the bits of steps on the host") {
  for (const std::string& name : sparsePresets())
    for (const int ranks : kRankCounts) checkSteps(name, ranks, kLength, 0.02, 0, kSteps);
}

TEST_CASE("as published, too") {
  for (const std::string& name : sparsePresets()) checkSteps(name, 3, kLength / 2, 0.03, 1, kSteps);
}

TEST_CASE("with more NaN than a message has room for, too") {
  for (const std::string& name : sparsePresets()) checkSteps(name, 3, kLength / 3, 0.03, 0, 3, With::kNaN);
}

TEST_CASE("whatever order blocks and threads come in") {
  simt::schedule(5);
  for (const std::string& name : sparsePresets()) checkSteps(name, 3, 2 * kLength, 0.02, 0, kSteps);
  simt::schedule(0);
}

TEST_CASE("vectors that many blocks cut") {
  for (const char* const name : {"topka", "micro", "deft", "spardl", "oktopk"}) checkSteps(name, 2, 200003, 0.01, 0, 3);
}
