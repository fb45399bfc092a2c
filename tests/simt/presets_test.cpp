// Whole steps of every preset on devices: the same bits as on the host, on every rank, in the sum and in the residual.
#include <bit>
#include <string>

#include "tests/device/checks.h"
#include "tests/support/group.h"

using namespace sparsecoll::test;

namespace {

#ifdef SPARSECOLL_TEST_SANITIZED
constexpr int kRankCounts[] = {3};
constexpr uint64_t kLength = 3001;
constexpr int kSteps = 2;
#else
constexpr int kRankCounts[] = {1, 2, 3, 4, 8};
constexpr uint64_t kLength = 9001;  // three tiles
constexpr int kSteps = 4;
#endif

std::vector<std::string> sparsePresets() {
  std::vector<std::string> names;
  for (uint32_t i = 0; sparsecollPresetName(i) != nullptr; ++i)
    if (std::string(sparsecollPresetName(i)) != "dense") names.emplace_back(sparsecollPresetName(i));
  return names;
}

// Every fifth entry of one rank NaN, of many bits.
void spoil(Group& group, int step) {
  Elements& gradient = group.gradients[static_cast<size_t>(step) % group.gradients.size()];
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
  REQUIRE(host.created() == Results(static_cast<size_t>(ranks), sparsecollSuccess));
  CHECK(device.created() == host.created());
  if (device.created() != host.created()) {
    UNSCOPED_INFO(sparsecollGetLastError());
    return;
  }
  for (int step = 0; step < steps; ++step) {
    CAPTURE(step);
    host.fillRandom(static_cast<uint64_t>(step));
    device.fillRandom(static_cast<uint64_t>(step));
    if (with == With::kNaN) spoil(host, step);
    if (with == With::kNaN) spoil(device, step);
    CHECK(host.step() == Results(static_cast<size_t>(ranks), sparsecollSuccess));
    const Results results = device.step();
    REQUIRE(results == Results(static_cast<size_t>(ranks), sparsecollSuccess));
    for (int rank = 0; rank < ranks; ++rank) {
      CAPTURE(rank);
      const auto r = static_cast<size_t>(rank);
      REQUIRE(device.outs[r] == host.outs[r]);
      REQUIRE(device.residual(rank) == host.residual(rank));
    }
  }
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

#ifndef SPARSECOLL_TEST_SANITIZED
TEST_CASE("vectors that many blocks cut") {
  for (const char* const name : {"topka", "micro", "deft", "spardl", "oktopk"}) checkSteps(name, 2, 200003, 0.01, 0, 3);
}
#endif
