// ExDyna's blocks and partitions, as published (specification 4) and by default.
#include "selectors/exdyna.h"

#include "tests/support/catch.h"

#include <numeric>

#include "tests/support/solo.h"
#include "tests/unit/selection_run.h"

namespace sparsecoll {
namespace {

using test::gradientsOf;
using test::SelectionRun;
using test::solo;

TEST_CASE("V8: block lengths and what is left over") {
  struct Row {
    uint64_t n, length, rest;
  };
  for (const Row& row : {Row{11173962, 10912, 74}, Row{11220132, 10944, 13476}, Row{28949319, 28256, 15175},
                         Row{31832577, 31072, 14849}}) {
    CAPTURE(row.n);
    const Blocks blocks = blocksFor(row.n);
    CHECK(blocks.length == row.length);
    CHECK(blocks.count == 1024);
    CHECK(row.n - blocks.length * blocks.count == row.rest);
  }
  CHECK(blocksFor(1).count == 1);
  CHECK(blocksFor(1000).count == 1000);
  CHECK(blocksFor(5000).length == 4);
}

TEST_CASE("V8: eight ranks start with 128 blocks each") {
  std::vector<uint32_t> starts(9);
  firstPartitions(1024, starts);
  for (uint32_t p = 0; p <= 8; ++p) CHECK(starts[p] == 128 * p);
}

TEST_CASE("neighbours move a block only if one has too much and the other too little") {
  const auto moved = [](std::vector<double> loads, std::vector<uint32_t> starts, uint32_t blocks = 1024) {
    moveBorders(blocks, 1, loads, starts);
    return starts;
  };
  using Starts = std::vector<uint32_t>;
  CHECK(moved({130, 70}, {0, 512, 1024}) == Starts{0, 511, 1024});
  CHECK(moved({70, 130}, {0, 512, 1024}) == Starts{0, 513, 1024});
  CHECK(moved({104, 96}, {0, 512, 1024}) == Starts{0, 512, 1024});
  CHECK(moved({130, 100, 100, 70}, {0, 256, 512, 768, 1024}) == Starts{0, 256, 512, 768, 1024});  // the stall
  CHECK(moved({70, 130}, {0, 896, 1024}) == Starts{0, 896, 1024});  // 1024 / 8 is the least
  CHECK(moved({130, 70}, {0, 128, 1024}) == Starts{0, 128, 1024});
  CHECK(moved({0, 0}, {0, 512, 1024}) == Starts{0, 512, 1024});
  // What a block takes along counts at the next border.
  CHECK(moved({130, 90, 80}, {0, 300, 600, 1024}) == Starts{0, 299, 600, 1024});
}

TEST_CASE("loads move along with blocks") {
  const auto after = [](std::vector<double> loads) {
    std::vector<uint32_t> starts = {0, 512, 1024};
    moveBorders(1024, 5, loads, starts);
    return loads;
  };
  using Loads = std::vector<double>;
  CHECK(after({130, 70}) == Loads{125, 75});
  CHECK(after({70, 130}) == Loads{75, 125});
  CHECK(after({104, 96}) == Loads{104, 96});
}

TEST_CASE("an even cut gives all parts the same share of the counts") {
  std::vector<uint32_t> counts(1024, 1);
  std::vector<uint32_t> starts(5);
  cutEvenly(counts, 64, starts, solo());
  CHECK(starts == std::vector<uint32_t>{0, 256, 512, 768, 1024});
  // The first quarter holds as much as the rest: three parts there, up to the least of 64 blocks.
  for (size_t b = 0; b < 256; ++b) counts[b] = 9;
  cutEvenly(counts, 64, starts, solo());
  for (size_t p = 0; p < 4; ++p) {
    const uint32_t inside = std::accumulate(counts.begin() + starts[p], counts.begin() + starts[p + 1], 0u);
    CHECK(inside == Approx(768).margin(10));
  }
  // Everything in one block: the least lengths hold.
  std::fill(counts.begin(), counts.end(), 0u);
  counts[1023] = 100;
  cutEvenly(counts, 64, starts, solo());
  for (size_t p = 0; p < 4; ++p) CHECK(starts[p + 1] - starts[p] >= 64);
  CHECK(starts[4] == 1024);
  const std::vector<uint32_t> before = starts;
  std::fill(counts.begin(), counts.end(), 0u);
  cutEvenly(counts, 64, starts, solo());
  CHECK(starts == before);
}

TEST_CASE("more parts than blocks leave some of them empty") {
  std::vector<uint32_t> starts(8);
  firstPartitions(3, starts);
  cutEvenly(std::vector<uint32_t>{5, 5, 5}, 0, starts, solo());
  CHECK(std::is_sorted(starts.begin(), starts.end()));
  CHECK(starts.back() == 3);
}

// The same borders, by walking over all blocks for each of them.
std::vector<uint32_t> bordersOf(const std::vector<uint32_t>& counts, uint32_t least, uint32_t parts) {
  const auto blocks = static_cast<uint32_t>(counts.size());
  const uint64_t total = std::accumulate(counts.begin(), counts.end(), uint64_t{0});
  std::vector<uint32_t> starts(parts + 1);
  for (uint32_t p = 1; p < parts; ++p) {
    uint64_t passed = 0;
    while (starts[p] < blocks && passed + (counts[starts[p]] + 1) / 2 <= total * p / parts)
      passed += counts[starts[p]++];
    const uint32_t room = blocks - (parts - p) * least;
    starts[p] = std::min(std::max(starts[p], starts[p - 1] + least), room);
  }
  starts[parts] = blocks;
  return starts;
}

TEST_CASE("an even cut of many blocks is the one that a walk over all of them finds") {
  test::Random random(17);
  for (const uint32_t blocks : {5u, 64u, 1000u, 1024u, 4097u, 30000u})
    for (const uint32_t parts : {1u, 2u, 3u, 5u})
      for (const double share : {1.0, 0.3, 0.002}) {
        CAPTURE(blocks, parts, share);
        std::vector<uint32_t> counts(blocks);
        for (uint32_t& count : counts)
          if (std::bernoulli_distribution(share)(random))
            count = std::uniform_int_distribution<uint32_t>(0, 11)(random);
        counts[blocks / 3] = 3;
        const uint32_t least = blocks / (4 * parts);
        std::vector<uint32_t> starts(parts + 1);
        cutEvenly(counts, least, starts, solo());
        CHECK(starts == bordersOf(counts, least, parts));
      }
}

// Longest list over mean list, averaged over the later steps.
double imbalanceOf(PlanFunction plan, bool faithful, uint64_t steps) {
  SelectionRequest request;
  request.n = 65536;
  request.ranks = 4;
  request.density = request.maxDensity = 0.02;
  request.params.faithful = faithful ? 1 : 0;
  request.params.threshold = faithful ? 30 : 0;
  SelectionRun<float> run(plan, request, true);
  double sum = 0;
  for (uint64_t step = 0; step < steps; ++step) {
    auto gradients = gradientsOf<float>(4, request.n, step);
    for (auto& gradient : gradients)
      for (uint64_t i = 0; i < request.n / 8; ++i) gradient[i] *= 3;  // hot layers at the front
    const auto delivered = static_cast<double>(run.step(gradients));
    if (step >= steps / 2) sum += static_cast<double>(run.control().largest) * 4 / delivered;
  }
  return sum / static_cast<double>(steps - steps / 2);
}

TEST_CASE("partitions follow the counts, MiCRO's do not") {
  const double fixed = imbalanceOf(selectorRow(sparsecollSelectMicro)->plan, false, 40);
  const double cut = imbalanceOf(selectorRow(sparsecollSelectExDyna)->plan, false, 40);
  CHECK(fixed > 1.5);
  CHECK(cut < 1.2);
}

TEST_CASE("partitions are disjoint and cover the vector in every step, in both modes") {
  for (const bool faithful : {false, true})
    for (const uint64_t n : {3u, 700u, 40000u})
      for (const int ranks : {1, 3, 4}) {
        SelectionRequest request;
        request.n = n;
        request.ranks = ranks;
        request.density = request.maxDensity = 0.05;
        request.params.faithful = faithful ? 1 : 0;
        SelectionRun<float> run(selectorRow(sparsecollSelectExDyna)->plan, request, true);
        for (uint64_t step = 0; step < 8; ++step) {
          run.step(gradientsOf<float>(run.ranks(), n, step));
          std::vector<std::pair<uint64_t, uint64_t>> parts;
          for (size_t r = 0; r < run.ranks(); ++r)
            parts.emplace_back(run.control(r).windows[0].begin, run.control(r).windows[0].end);
          std::sort(parts.begin(), parts.end());
          CAPTURE(faithful, n, ranks, step);
          CHECK(parts.front().first == 0);
          CHECK(parts.back().second == n);
          for (size_t p = 1; p < parts.size(); ++p) CHECK(parts[p].first == parts[p - 1].second);
        }
      }
}

}  // namespace
}  // namespace sparsecoll
