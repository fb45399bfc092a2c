// Memory runs out on one rank while a stage of a warm-up begins, at its i-th allocation, for every i until none is
// refused any more (T46).
#include "tests/support/catch.h"
#include "tests/support/group.h"
#include "tests/support/malloc_hooks.h"
#include "tests/support/node_groups.h"

using namespace sparsecoll::test;

namespace {

constexpr uint64_t kLength = 3000;
const double kFirst = 0.2;  // for one step

struct Outcome {
  Results first, last;
  bool refused = false;
  std::vector<Elements> outs;       // of the stage's first step
  uint64_t capacity = 0;            // behind it
  std::vector<int> gaveBack{0, 0};  // whether a rank gave something back behind a step that failed
};

// A second step begins the last stage, and where that is not the one in question a Reset and a third the first one.
// Rank 1 is refused memory in the step that does.
Outcome stageWith(const char* name, bool backToFirst, uint64_t skip) {
  const sparsecollReducerConfig_t config = scheduled(kFirst, 1);
  sparsecollConfig_t patient = SPARSECOLL_INIT(sparsecollConfig_t);
  patient.opTimeoutMs = 20000;
  Group group(2, kLength, sparsecollFloat32, preset(name, 0.01), &config, &patient);
  for (int step = 0; step < (backToFirst ? 2 : 1); ++step) {
    group.fillIntegers(static_cast<uint64_t>(step));
    REQUIRE(group.step() == all(2, sparsecollSuccess));
  }
  if (backToFirst)
    REQUIRE(group.each([](int, sparsecollReducer_t reducer) { return sparsecollReducerReset(reducer, nullptr); }) ==
            all(2, sparsecollSuccess));
  group.fillIntegers(7);
  Outcome outcome;
  outcome.first = outcome.last = all(2, sparsecollInternalError);
  group.each([&](int rank, sparsecollReducer_t reducer) {
    const auto r = static_cast<size_t>(rank);
    const auto run = [&] {
      return sparsecollReducerRun(reducer, group.gradients[r].data(), group.outs[r].data(), nullptr);
    };
    if (rank == 1) memory::refuseAfter(skip);
    outcome.last[r] = outcome.first[r] = run();
    if (rank == 1) outcome.refused = memory::refused();
    if (rank == 1) memory::refuseNone();
    if (outcome.first[r] == (rank == 1 ? sparsecollOutOfMemory : sparsecollMismatch)) {
      const Elements kept = group.residual(rank);
      const sparsecollResult_t gaveBack = sparsecollReducerGiveBack(reducer, group.outs[r].data(), 1, nullptr);
      outcome.gaveBack[r] = gaveBack != sparsecollSuccess || !(group.residual(rank) == kept) ? 1 : 0;
      outcome.last[r] = run();
    }
    return sparsecollSuccess;
  });
  outcome.outs = group.outs;
  outcome.capacity = group.info().capacity;
  return outcome;
}

// each: looks at what became of a step in which memory was refused.
template <class Each>
void refuseEverywhere(bool backToFirst, Each each) {
  if (!memory::canRefuse()) return;
  for (const char* const name : {"topka", "micro", "spardl"}) {
    CAPTURE(name);
    const Outcome expected = stageWith(name, backToFirst, UINT64_MAX);
    REQUIRE(expected.first == all(2, sparsecollSuccess));
    uint64_t skip = 0;
    for (;; ++skip) {
      const Outcome outcome = stageWith(name, backToFirst, skip);
      CAPTURE(skip, outcome.first, outcome.last);
      REQUIRE(outcome.last == all(2, sparsecollSuccess));
      CHECK(outcome.outs == expected.outs);
      CHECK(outcome.gaveBack == std::vector{0, 0});
      if (!outcome.refused) break;
      each(outcome, expected);
      REQUIRE(skip < 1000);
    }
    CHECK(skip > 20);
  }
}

}  // namespace

TEST_CASE("without memory for a stage that asks for less the ranks keep the room that they have") {
  uint64_t kept = 0;
  refuseEverywhere(false, [&](const Outcome& outcome, const Outcome& expected) {
    CHECK(outcome.first == all(2, sparsecollSuccess));
    CHECK(outcome.capacity >= expected.capacity);
    kept += outcome.capacity > expected.capacity ? 1 : 0;
  });
  CHECK((kept > 60 || !memory::hooked()));
}

TEST_CASE("without memory for a stage that asks for more no rank has run the step, and all can run it again") {
  refuseEverywhere(true, [](const Outcome& outcome, const Outcome& expected) {
    CHECK(outcome.capacity == expected.capacity);
    if (outcome.first != all(2, sparsecollSuccess))  // else only working out the other way was refused
      CHECK(outcome.first == Results{sparsecollMismatch, sparsecollOutOfMemory});
  });
}
