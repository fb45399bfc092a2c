// out has the same bits on every rank and in every run (T20, T21): 100 runs of every scenario, each with communicators,
// reducers and threads of its own, and 2,000 steps of one reducer. Sanitizers need not see them so often.
#include "tests/support/catch.h"

#include <iostream>
#include <set>

#include "tests/oracle/scenario.h"

using namespace sparsecoll::test;

namespace {
constexpr int kRuns = 100;
constexpr uint64_t kSteps = 2000;
}  // namespace

TEST_CASE("runs have equal bits, and so have ranks") {
  std::cout << kRuns << " runs of each scenario\n";
  for (Scenario scenario : scenarios()) {
    scenario.n = std::min<uint64_t>(scenario.n, 9001);  // still more than a tile
    CAPTURE(scenario.name);
    const Inputs inputs = inputsOf(scenario);
    std::set<uint64_t> outs;
    std::set<uint64_t> residuals;
    for (int run = 0; run < kRuns; ++run) {
      const Hashes hashes = runScenario(scenario, inputs);
      REQUIRE(hashes.ran);
      outs.insert(hashes.outs.begin(), hashes.outs.end());
      residuals.insert(hashes.residuals);
    }
    CHECK(outs.size() == 1);
    CHECK(residuals.size() == 1);
  }
}

TEST_CASE("all steps of one reducer stay equal on all ranks") {
  struct Row {
    const char* preset;
    bool faithful;
    int ranks;
  };
  for (const Row& row : {Row{"topka", false, 4}, Row{"threshold", false, 3}, Row{"micro", false, 4},
                         Row{"micro", true, 3}, Row{"sage", false, 3}}) {
    CAPTURE(row.preset, row.faithful);
    sparsecollParams_t params = preset(row.preset, 0.05);
    params.faithful = row.faithful ? 1 : 0;
    Group group(row.ranks, 500, sparsecollFloat32, params);
    bool equal = true;
    for (uint64_t step = 0; step < kSteps && equal; ++step) {
      if (step % 50 == 0) group.fillRandom(step);
      if (group.step() != all(row.ranks, sparsecollSuccess)) FAIL("step " << step << ": " << sparsecollGetLastError());
      equal = group.outsEqual();
    }
    CHECK(equal);
  }
}

TEST_CASE("different inputs give different hashes") {  // so that equal ones mean something
  std::set<uint64_t> seen;
  for (const Scenario& scenario : scenarios()) seen.insert(runScenario(scenario).outs[0]);
  CHECK(seen.size() == scenarios().size());
}
