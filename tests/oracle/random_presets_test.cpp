// Random cases of every preset, with every option that leaves the conservation law as it is: what went in is in the
// sums or in the residuals, entry by entry; all ranks have the same sum. SPARSECOLL_CASE=seed runs one case alone.
#include "tests/support/catch.h"

#include <cmath>
#include <cstdlib>
#include <string>

#include "tests/support/group.h"

using namespace sparsecoll::test;

namespace {

#ifdef SPARSECOLL_TEST_SANITIZED
constexpr uint64_t kCases = 300;
#else
constexpr uint64_t kCases = 4000;
#endif
constexpr uint64_t kFirstSeed = 20261121;

struct Case {
  explicit Case(uint64_t caseSeed) : seed(caseSeed) {
    Random random(seed * 0x9e3779b97f4a7c15ull);
    constexpr int kRanks[] = {1, 2, 2, 3, 4, 4, 5, 6, 7, 8, 12, 16};
    constexpr uint64_t kEdges[] = {1, 2, 31, 32, 64, 65, 4095, 4096, 4097, 8193};
    uint32_t presets = 1;
    while (sparsecollPresetName(presets) != nullptr) ++presets;
    name = sparsecollPresetName(static_cast<uint32_t>(random.below(presets)));
    ranks = random.pick(kRanks);
    n = random.chance(0.1) ? random.pick(kEdges) : 1 + random.below(random.chance(0.3) ? 3000 : 200);
    type = random.chance(0.3) ? sparsecollFloat64 : sparsecollFloat32;
    numbers = random.below(3);
    params = preset(name.c_str(), name == "dense" ? 0 : std::pow(10.0, -3 * random.real()));
    params.faithful = random.chance(0.3) ? 1 : 0;
    params.momentum = 0;  // what goes in is the gradient
    params.tag = seed;
    if (name == "dense") return;
    if (random.chance(0.3)) {
      params.density = 0;
      params.k = 1 + random.below(n);
    }
    if (random.chance(0.3)) params.flags |= SPARSECOLL_OUT_PRESERVED;
    transactional = random.chance(0.2);
    if (name.starts_with("spardl") && random.chance(0.5)) params.teams = teamsOf(random);
    if (random.chance(0.25)) drawSegments(random);
  }

  // Tensors, some of which are sent dense.
  void drawSegments(Random& random) {
    for (uint64_t left = n; left != 0;) {
      const uint64_t length = 1 + random.below(left);
      segments.push_back({length, 0, random.chance(0.5) ? 1 : 0, 0});
      left -= length;
    }
  }

  std::string text() const {
    return "SPARSECOLL_CASE=" + std::to_string(seed) + ": " + name + (params.faithful != 0 ? " faithful" : "") +
           ", P " + std::to_string(ranks) + ", n " + std::to_string(n) + " " + nameOf(type) + ", density " +
           std::to_string(params.density) + ", k " + std::to_string(params.k) + ", teams " +
           std::to_string(params.teams) + ", flags " + std::to_string(params.flags) +
           (transactional ? ", transactional" : "") + ", " + std::to_string(segments.size()) + " tensors" +
           ", numbers " + std::to_string(numbers);
  }

  // Whole numbers, so that every sum is exact: of all sizes, hardly any but zeros, or in one part of the vector.
  void fill(Group& group, uint64_t step) const {
    for (int rank = 0; rank < ranks; ++rank) {
      Random random((seed * 64 + step) * 64 + static_cast<uint64_t>(rank));
      Elements& gradient = group.gradients[static_cast<size_t>(rank)];
      for (uint64_t i = 0; i < n; ++i) {
        const bool drawn = numbers == 0 || (numbers == 1 ? random.chance(0.05) : i < n / 7 + 1);
        gradient.set(i, drawn ? static_cast<double>(random.below(101)) - 50 : 0);
      }
    }
  }

  uint64_t seed;
  std::string name;
  int ranks = 1;
  uint64_t n = 1;
  sparsecollDataType_t type = sparsecollFloat32;
  sparsecollParams_t params{};
  bool transactional = false;
  uint64_t numbers = 0;
  std::vector<sparsecollSegment_t> segments;

 private:
  // A divisor of the ranks; for recursive doubling a power of two.
  int32_t teamsOf(Random& random) const {
    int32_t teams = 1 + static_cast<int32_t>(random.below(static_cast<uint64_t>(ranks)));
    while (ranks % teams != 0 || (name == "spardl-rsag" && (teams & (teams - 1)) != 0)) --teams;
    return teams;
  }
};

std::vector<double> held(const Group& group, bool withGradients) {
  std::vector<double> sum(group.outs[0].size());
  for (int rank = 0; rank < group.count(); ++rank) {
    const Elements residual = group.residual(rank);
    for (size_t i = 0; i < sum.size(); ++i) {
      if (residual.size() != 0) sum[i] += residual[i];
      if (withGradients) sum[i] += group.gradients[static_cast<size_t>(rank)][i];
    }
  }
  return sum;
}

// Empty, or what is wrong.
std::string problem(const Case& which) {
  sparsecollReducerConfig_t config = SPARSECOLL_INIT(sparsecollReducerConfig_t);
  config.transactional = which.transactional ? 1 : 0;
  config.segments = which.segments.empty() ? nullptr : which.segments.data();
  config.segmentCount = which.segments.size();
  Group group(which.ranks, which.n, which.type, which.params, &config);
  if (group.created() != all(which.ranks, sparsecollSuccess)) return std::string("create: ") + sparsecollGetLastError();
  for (uint64_t step = 0; step < 4; ++step) {
    which.fill(group, step);
    const std::vector<double> before = held(group, true);
    if (group.step() != all(which.ranks, sparsecollSuccess)) return std::string("step: ") + sparsecollGetLastError();
    const std::vector<double> after = held(group, false);
    uint64_t admitted = 0;
    for (int rank = 0; rank < which.ranks; ++rank) {
      const sparsecollStats_t stats = group.stats(rank);
      admitted += stats.entriesLost;
      if (stats.lastSelected > group.info().capacity) return "more selected than Info.capacity";
    }
    if (admitted != 0 && which.params.faithful == 0) return "entries admitted as lost";
    for (size_t i = 0; i < before.size() && admitted == 0; ++i)
      if (before[i] != after[i] + group.outs[0][i])
        return "step " + std::to_string(step) + ", entry " + std::to_string(i) + ": " + std::to_string(before[i]) +
               " went in, " + std::to_string(after[i]) + " stayed, " + std::to_string(group.outs[0][i]) + " came out";
    if (!group.outsEqual()) return "the ranks' sums differ";
  }
  return "";
}

}  // namespace

TEST_CASE("random cases of every preset conserve every entry") {
  const char* const one = std::getenv("SPARSECOLL_CASE");
  const uint64_t first = one != nullptr ? std::strtoull(one, nullptr, 10) : kFirstSeed;
  const uint64_t count = one != nullptr ? 1 : kCases;
  uint64_t wrong = 0;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    const Case which(seed);
    const std::string found = problem(which);
    if (found.empty()) continue;
    UNSCOPED_INFO(which.text() << ": " << found);
    if (++wrong == 5) break;
  }
  CHECK(wrong == 0);
}
