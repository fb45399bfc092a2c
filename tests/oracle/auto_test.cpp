// The preset auto: ranks change methods together, nothing is lost on the way, and what was decided can be run again.
// What steps cost is put in the place of what was measured, so no case depends on time.
#include "tests/support/catch.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <string>

#include "src/plan.h"
#include "tests/support/group.h"

using namespace sparsecoll::test;
using sparsecoll::StepCost;

namespace {

constexpr int kRanks = 3;
constexpr uint64_t kLength = 3000;
constexpr uint64_t kUs = 1000;

// In microseconds: of every rank, and what one of them takes longer.
struct Costs {
  std::map<std::string, uint64_t> us;
  int slowRank = -1;
  std::map<std::string, uint64_t> slowUs;
};

class CostsInPlace {
 public:
  explicit CostsInPlace(Costs costs) {
    now() = std::move(costs);
    sparsecoll::replaceCosts(&CostsInPlace::of);
  }
  ~CostsInPlace() { sparsecoll::replaceCosts(nullptr); }
  CostsInPlace(const CostsInPlace&) = delete;
  CostsInPlace& operator=(const CostsInPlace&) = delete;
  static void change(Costs costs) { now() = std::move(costs); }

 private:
  static Costs& now() {
    static Costs costs;
    return costs;
  }
  static StepCost of(const char* candidate, int rank, StepCost) {
    const Costs& costs = now();
    uint64_t us = costs.us.at(candidate) + static_cast<uint64_t>(rank);
    if (rank == costs.slowRank) us += costs.slowUs.at(candidate);
    return {us * kUs, us * kUs / 2};
  }
};

const Costs kSplitWins = {{{"topka", 200}, {"sparcml-split", 100}, {"spardl", 900}, {"dense", 150}}, -1, {}};
const Costs kDenseWins = {{{"topka", 200}, {"sparcml-split", 180}, {"spardl", 190}, {"dense", 150}}, -1, {}};
const Costs kTopkaWins = {{{"topka", 100}, {"sparcml-split", 180}, {"spardl", 190}, {"dense", 950}}, -1, {}};

using Choices = std::vector<sparsecollChoice_t>;

Choices choicesOf(sparsecollReducer_t reducer) {
  uint64_t count = 0;
  if (sparsecollReducerGetPlan(reducer, nullptr, &count) != sparsecollSuccess) return {};
  Choices choices(count);
  if (sparsecollReducerGetPlan(reducer, choices.data(), &count) != sparsecollSuccess) return {};
  return choices;
}

std::string shown(const Choices& choices) {
  std::string text;
  for (const sparsecollChoice_t& choice : choices)
    text += std::to_string(choice.step) + " " + sparsecollCollectiveName(choice.collective) + ", ";
  return text;
}

sparsecollReducerConfig_t planned(const Choices& choices) {
  sparsecollReducerConfig_t config = SPARSECOLL_INIT(sparsecollReducerConfig_t);
  config.plan = choices.data();
  config.planCount = choices.size();
  return config;
}

class AutoGroup : public Group {
 public:
  explicit AutoGroup(double density = 0.01, sparsecollDataType_t type = sparsecollFloat32,
                     const sparsecollReducerConfig_t* config = nullptr, const sparsecollConfig_t* comm = nullptr)
      : Group(kRanks, kLength, type, preset("auto", density), config, comm) {
    REQUIRE(created() == all(kRanks, sparsecollSuccess));
  }
  AutoGroup(const sparsecollParams_t& params, const sparsecollReducerConfig_t* config = nullptr)
      : Group(kRanks, kLength, sparsecollFloat32, params, config) {
    REQUIRE(created() == all(kRanks, sparsecollSuccess));
  }
  void run(uint64_t steps) {
    for (uint64_t s = 0; s < steps; ++s) {
      fillRandom(seed_++);
      REQUIRE(step() == all(kRanks, sparsecollSuccess));
      REQUIRE(outsEqual());
    }
  }
  std::string collective(int rank = 0) const { return sparsecollCollectiveName(infoOf(reducer(rank)).collective); }
  std::string reason() const { return info().reason; }
  std::string plan(int rank = 0) const { return shown(choicesOf(reducer(rank))); }

 private:
  uint64_t seed_ = 1;
};

// A step of small integers, exact in every type: what was there is there, entry by entry.
void conservingStep(Group& group, uint64_t seed) {
  group.fillIntegers(seed, 3);
  std::vector<double> before(kLength);
  const auto add = [&](std::vector<double>& to, int rank) {
    const Elements residual = group.residual(rank);
    for (uint64_t i = 0; i < kLength; ++i) to[i] += residual[i];
  };
  for (int rank = 0; rank < kRanks; ++rank) {
    add(before, rank);
    for (uint64_t i = 0; i < kLength; ++i) before[i] += group.gradients[static_cast<size_t>(rank)][i];
  }
  REQUIRE(group.step() == all(kRanks, sparsecollSuccess));
  REQUIRE(group.outsEqual());
  std::vector<double> after(kLength);
  for (int rank = 0; rank < kRanks; ++rank) add(after, rank);
  for (uint64_t i = 0; i < kLength; ++i) after[i] += group.outs[0][i];
  REQUIRE(before == after);
}

}  // namespace

TEST_CASE("ranks change methods together, and the fastest one on the slowest rank stays") {
  const CostsInPlace costs(kSplitWins);
  AutoGroup group;
  group.run(30);
  // Two steps of each, then four of those that are not twice as slow.
  CHECK(group.plan() ==
        "0 allgather, 2 split_gather, 4 spardl, 6 dense, 8 allgather, 12 split_gather, 16 dense, 20 split_gather, ");
  for (int rank = 0; rank < kRanks; ++rank) {
    CHECK(group.collective(rank) == "split_gather");
    CHECK(group.plan(rank) == group.plan());
    CHECK(std::string(infoOf(group.reducer(rank)).reason) == group.reason());
    CHECK(group.stats(rank).opsCompleted == 30);
    CHECK(group.stats(rank).opsDense == 6);
    CHECK(group.stats(rank).lastCollective == sparsecollCollSplitGather);
  }
  // 2 us more on rank 2, half of it at any density; dense's 152 us leave 101 for what takes 51 at 0.01.
  CHECK_THAT(group.reason(),
             Catch::StartsWith(
                 "n 3k P 3: sparcml-split, 0.1 ms; dense 0.15 ms; break-even density 0.02; link 0.84 Gbit/s measured"));

  Costs slow = kSplitWins;
  slow.slowRank = 1;
  slow.slowUs = {{"topka", 0}, {"sparcml-split", 500}, {"spardl", 0}, {"dense", 0}};
  CostsInPlace::change(slow);
  AutoGroup other;
  other.run(30);
  CHECK(other.collective() == "dense");
  CHECK_THAT(other.reason(), Catch::Contains("dense, 0.15 ms; topka 0.2 ms"));
}

TEST_CASE("nothing is lost when methods change") {
  for (const sparsecollDataType_t type : kAllTypes)
    for (const Costs& which : {kSplitWins, kDenseWins, kTopkaWins}) {
      CAPTURE(nameOf(type));
      const CostsInPlace costs(which);
      AutoGroup group(0.05, type);
      for (uint64_t step = 0; step < 28; ++step) {
        CAPTURE(step, group.plan());
        conservingStep(group, step);
      }
    }
}

TEST_CASE("sparse to dense takes the residual along") {
  const CostsInPlace costs(kDenseWins);
  AutoGroup group(0.01);
  group.run(6);
  bool any = false;
  const Elements before = group.residual(0);
  for (uint64_t i = 0; i < kLength; ++i) any = any || before[i] != 0;
  CHECK(any);
  group.run(1);
  CHECK(group.collective() == "dense");
  for (int rank = 0; rank < kRanks; ++rank) CHECK(group.residual(rank) == Elements(sparsecollFloat32, kLength));
  group.run(30);
  CHECK(group.collective() == "dense");
  // What a dense step is given back is in the next dense sum.
  std::vector<float> sum(kLength);
  for (uint64_t i = 0; i < kLength; ++i) sum[i] = static_cast<float>(group.outs[0][i]);
  REQUIRE(group.each([&](int, sparsecollReducer_t reducer) {
    return sparsecollReducerGiveBack(reducer, sum.data(), 1, nullptr);
  }) == all(kRanks, sparsecollSuccess));
  for (Elements& gradient : group.gradients) gradient.fill(0);
  REQUIRE(group.step() == all(kRanks, sparsecollSuccess));
  for (uint64_t i = 0; i < kLength; ++i)
    if (std::abs(group.outs[0][i] - static_cast<double>(sum[i])) > 1e-5) FAIL("entry " << i);
  // And Flush finds what a change of method has left.
  std::vector<float> rest(kLength);
  CHECK(sparsecollReducerFlush(group.reducer(0), rest.data(), nullptr) == sparsecollSuccess);
  CHECK(std::ranges::all_of(rest, [](float x) { return x == 0; }));
}

TEST_CASE("no candidate delivers fewer entries than topka") {
  const CostsInPlace costs({{{"topka", 900}, {"sparcml-split", 900}, {"spardl", 100}, {"dense", 900}}, -1, {}});
  AutoGroup group(0.01);
  group.run(30);
  CHECK(group.collective() == "spardl");
  CHECK(group.info().k == 90);
  CHECK(group.stats(0).lastUnion >= 30);
  AutoGroup most(0.5);
  CHECK(most.info().k == 1500);
  most.run(30);
  CHECK(most.info().k == 3000);
}

TEST_CASE("another density starts trials again, without those that would be too slow") {
  const CostsInPlace costs(kSplitWins);
  sparsecollReducerConfig_t config = SPARSECOLL_INIT(sparsecollReducerConfig_t);
  config.maxDensity = 0.1;
  AutoGroup group(0.01, sparsecollFloat32, &config);
  group.run(25);
  const size_t before = choicesOf(group.reducer(0)).size();
  const auto set = [&](double density) {
    return group.each([&](int, sparsecollReducer_t reducer) { return sparsecollReducerSetDensity(reducer, density); });
  };
  REQUIRE(set(0.01) == all(kRanks, sparsecollSuccess));
  group.run(5);
  CHECK(choicesOf(group.reducer(0)).size() == before);
  // Half of a sparse step's time grows with the density: at 0.1 split_gather is predicted to take 550 us, dense 150.
  CostsInPlace::change(kDenseWins);
  REQUIRE(set(0.1) == all(kRanks, sparsecollSuccess));
  group.run(5);
  CHECK(group.plan() ==
        "0 allgather, 2 split_gather, 4 spardl, 6 dense, 8 allgather, 12 split_gather, 16 dense, 20 split_gather, "
        "30 dense, ");
  // And back: nothing but spardl is twice as slow as split_gather.
  CostsInPlace::change(kTopkaWins);
  REQUIRE(set(0.01) == all(kRanks, sparsecollSuccess));
  group.run(30);
  CHECK(group.collective() == "allgather");
  CHECK(set(0.2) == all(kRanks, sparsecollInvalidArgument));
}

TEST_CASE("trials begin when the warm-up of the density is over") {
  const CostsInPlace costs(kSplitWins);
  const double densities[] = {0.25, 0.05};
  sparsecollReducerConfig_t config = SPARSECOLL_INIT(sparsecollReducerConfig_t);
  config.densitySchedule = densities;
  config.densityScheduleCount = 2;
  config.scheduleSteps = 4;
  AutoGroup group(0.01, sparsecollFloat32, &config);
  CHECK_THAT(group.reason(), Catch::Contains("no trials yet"));
  group.run(8);
  CHECK(group.plan() == "0 allgather, ");
  CHECK(group.stats(0).lastRequested == 150);
  group.run(1);
  CHECK(group.stats(0).lastRequested == 30);
  group.run(30);
  CHECK(group.collective() == "split_gather");
  CHECK(choicesOf(group.reducer(0))[1].step == 10);
  REQUIRE(group.each([](int, sparsecollReducer_t reducer) { return sparsecollReducerReset(reducer, nullptr); }) ==
          all(kRanks, sparsecollSuccess));
  group.run(1);
  CHECK(group.stats(0).lastRequested == 750);
  CHECK(group.plan() == "0 allgather, ");
}

TEST_CASE("a recorded plan gives the same bits, whatever steps cost") {
  for (const bool shaped : {false, true}) {
    CAPTURE(shaped);
    sparsecollParams_t params = preset("auto", 0.01);
    if (shaped) {
      params.momentum = 0.9;
      params.clipNorm = 5;
    }
    const CostsInPlace costs(kDenseWins);
    AutoGroup first(params);
    std::vector<Elements> outs;
    for (int step = 0; step < 30; ++step) {
      first.run(1);
      outs.push_back(first.outs[0]);
    }
    CostsInPlace::change(kTopkaWins);
    const Choices choices = choicesOf(first.reducer(0));
    const sparsecollReducerConfig_t config = planned(choices);
    AutoGroup again(params, &config);
    for (int step = 0; step < 30; ++step) {
      CAPTURE(step);
      again.run(1);
      REQUIRE(again.outs[0] == outs[static_cast<size_t>(step)]);
    }
    for (int rank = 0; rank < kRanks; ++rank) CHECK(again.residual(rank) == first.residual(rank));
    CHECK(again.plan() == first.plan());
    CHECK_THAT(again.reason(), Catch::Contains("replays"));
  }
}

TEST_CASE("a state goes on with what was decided, bit for bit") {
  for (const Costs& which : {kSplitWins, kDenseWins}) {
    const CostsInPlace costs(which);
    AutoGroup first(0.01);
    first.run(26);
    std::vector<Blob> blobs;
    for (int rank = 0; rank < kRanks; ++rank) blobs.push_back(exported(first.reducer(rank)));
    CostsInPlace::change(kTopkaWins);
    AutoGroup second(0.01);
    second.run(3);
    const auto take = [&](const std::vector<Blob>& from) {
      return second.each(
          [&](int rank, sparsecollReducer_t reducer) { return importInto(reducer, from[static_cast<size_t>(rank)]); });
    };
    // One that is damaged changes nothing.
    std::vector<Blob> damaged = blobs;
    for (Blob& blob : damaged) blob[blob.size() / 2] ^= std::byte{1};
    const Elements before = second.residual(0);
    CHECK(take(damaged) == all(kRanks, sparsecollCorrupted));
    for (Blob& blob : damaged) blob[20] ^= std::byte{1};
    CHECK(take(damaged) == all(kRanks, sparsecollCorrupted));
    CHECK(second.residual(0) == before);
    REQUIRE(take(blobs) == all(kRanks, sparsecollSuccess));
    CHECK(second.plan() == first.plan());
    CHECK(second.reason() == first.reason());
    for (uint64_t step = 0; step < 10; ++step) {
      first.fillRandom(step);
      second.fillRandom(step);
      REQUIRE(first.step() == all(kRanks, sparsecollSuccess));
      REQUIRE(second.step() == all(kRanks, sparsecollSuccess));
      REQUIRE(first.outs[0] == second.outs[0]);
    }
    for (int rank = 0; rank < kRanks; ++rank) CHECK(first.residual(rank) == second.residual(rank));
    CHECK(second.plan() == first.plan());
    Group named(kRanks, kLength, sparsecollFloat32, preset("topka", 0.01));
    CHECK(importInto(named.reducer(0), blobs[0]) == sparsecollInvalidArgument);
    CHECK(importInto(second.reducer(0), exported(named.reducer(0))) == sparsecollInvalidArgument);
  }
}

TEST_CASE("a state that was saved in the midst of trials begins them anew") {
  const CostsInPlace costs(kSplitWins);
  AutoGroup first(0.01);
  first.run(7);
  AutoGroup second(0.01);
  REQUIRE(second.each([&](int rank, sparsecollReducer_t reducer) {
    return importInto(reducer, exported(first.reducer(rank)));
  }) == all(kRanks, sparsecollSuccess));
  for (int rank = 0; rank < kRanks; ++rank) CHECK(second.residual(rank) == first.residual(rank));
  second.run(30);
  CHECK(second.collective() == "split_gather");
  for (int rank = 0; rank < kRanks; ++rank) CHECK(second.plan(rank) == second.plan());
}

TEST_CASE("the caller's own dense sum is not tried, and may win") {
  const CostsInPlace costs(kSplitWins);
  sparsecollReducerConfig_t config = SPARSECOLL_INIT(sparsecollReducerConfig_t);
  config.denseNs = 90 * kUs;
  AutoGroup group(0.01, sparsecollFloat32, &config);
  group.run(30);
  CHECK(group.collective() == "dense");
  CHECK(group.plan() == "0 allgather, 2 split_gather, 4 spardl, 6 split_gather, 10 dense, ");
  CHECK_THAT(group.reason(), Catch::Contains("by the caller"));
  // The slowest rank's time counts.
  std::vector<sparsecollReducer_t> reducers(kRanks);
  Ranks ranks(kRanks);
  const sparsecollParams_t params = preset("auto", 0.01);
  std::vector<std::string> collectives(kRanks);
  REQUIRE(onEach(ranks, [&](int rank, sparsecollComm_t comm) {
            const auto r = static_cast<size_t>(rank);
            sparsecollReducerConfig_t own = SPARSECOLL_INIT(sparsecollReducerConfig_t);
            own.denseNs = rank == 1 ? 120 * kUs : 90 * kUs;
            sparsecollResult_t result =
                sparsecollReducerCreate(&reducers[r], kLength, sparsecollFloat32, &params, &own, comm);
            std::vector<float> vector(kLength, 1.0f);
            for (int step = 0; result == sparsecollSuccess && step < 30; ++step)
              result = sparsecollReducerRun(reducers[r], vector.data(), vector.data(), nullptr);
            collectives[r] = sparsecollCollectiveName(infoOf(reducers[r]).collective);
            (void)sparsecollReducerDestroy(reducers[r]);
            return result;
          }) == all(kRanks, sparsecollSuccess));
  CHECK(collectives == std::vector<std::string>(kRanks, "split_gather"));
}

TEST_CASE("a rank that ends in a trial ends the step of the others") {
  const CostsInPlace costs(kSplitWins);
  // In a step, and where ranks meet before one: to tell what the last one took, or to begin together.
  for (const uint64_t last : {0u, 1u, 2u, 7u}) {
    CAPTURE(last);
    AutoGroup group(0.05);
    for (uint64_t step = 0; step < last; ++step) conservingStep(group, step);
    group.fillIntegers(last, 3);
    std::vector<Elements> before;
    for (int rank = 0; rank < kRanks; ++rank) before.push_back(group.residual(rank));
    const Results results = onEach(group.ranks(), [&](int rank, sparsecollComm_t comm) {
      const auto r = static_cast<size_t>(rank);
      if (rank == 1) return sparsecollCommAbort(comm);
      return sparsecollReducerRun(group.reducer(rank), group.gradients[r].data(), group.outs[r].data(), nullptr);
    });
    CHECK(results == Results{sparsecollPeerFailed, sparsecollSuccess, sparsecollPeerFailed});
    for (const int rank : {0, 2}) {
      // The residual has at most the step's gradient in addition.
      const Elements after = group.residual(rank);
      const Elements& gradient = group.gradients[static_cast<size_t>(rank)];
      const Elements& held = before[static_cast<size_t>(rank)];
      bool without = true;
      bool with = true;
      for (uint64_t i = 0; i < kLength; ++i) {
        without = without && after[i] == held[i];
        with = with && after[i] == held[i] + gradient[i];
      }
      CHECK((with || without));
      std::vector<float> rest(kLength);
      CHECK(sparsecollReducerFlush(group.reducer(rank), rest.data(), nullptr) == sparsecollSuccess);
    }
  }
}

TEST_CASE("a step that comes to nothing is tried again") {
  const CostsInPlace costs(kSplitWins);
  sparsecollConfig_t fails = SPARSECOLL_INIT(sparsecollConfig_t);
  fails.nonFinite = sparsecollNonFiniteError;
  for (const sparsecollDataType_t type : {sparsecollFloat32, sparsecollBfloat16}) {
    AutoGroup group(0.05, type, nullptr, &fails);
    for (uint64_t step = 0; step < 40; ++step) {
      CAPTURE(step, group.plan());
      if (step % 5 == 3) {
        group.fillIntegers(step, 3);
        group.gradients[1].set(7, std::nan(""));
        std::vector<double> held(kLength);
        for (int rank = 0; rank < kRanks; ++rank) {
          const Elements residual = group.residual(rank);
          for (uint64_t i = 0; i < kLength; ++i) held[i] += residual[i];
        }
        REQUIRE(group.step() == all(kRanks, sparsecollNonFinite));
        std::vector<double> with = held;
        for (const Elements& gradient : group.gradients)
          for (uint64_t i = 0; i < kLength; ++i)
            if (std::isfinite(gradient[i])) with[i] += gradient[i];
        std::vector<double> now(kLength);
        for (int rank = 0; rank < kRanks; ++rank) {
          const Elements residual = group.residual(rank);
          for (uint64_t i = 0; i < kLength; ++i) now[i] += residual[i];
        }
        held[7] = with[7] = now[7];  // what is NaN on a rank leaves it
        CHECK((now == held || now == with));
      } else {
        conservingStep(group, step);
      }
    }
    CHECK(group.collective() == "split_gather");
    for (int rank = 0; rank < kRanks; ++rank) CHECK(group.plan(rank) == group.plan());
  }
}

TEST_CASE("ranks that set another density get Mismatch, in trials and after them, and agree again") {
  const CostsInPlace costs(kSplitWins);
  sparsecollReducerConfig_t config = SPARSECOLL_INIT(sparsecollReducerConfig_t);
  config.maxDensity = 0.1;
  for (const uint64_t steps : {1u, 3u, 5u, 25u}) {
    CAPTURE(steps);
    AutoGroup group(0.01, sparsecollFloat32, &config);
    group.run(steps);
    REQUIRE(sparsecollReducerSetDensity(group.reducer(1), 0.02) == sparsecollSuccess);
    REQUIRE(group.step() == all(kRanks, sparsecollMismatch));
    for (const int rank : {0, 2}) REQUIRE(sparsecollReducerSetDensity(group.reducer(rank), 0.02) == sparsecollSuccess);
    group.run(30);
    CHECK(group.collective() == "split_gather");
    for (int rank = 0; rank < kRanks; ++rank) CHECK(group.plan(rank) == group.plan());
  }
}

TEST_CASE("scales, segments and out that is preserved go with every candidate") {
  const CostsInPlace costs(kDenseWins);
  sparsecollParams_t params = preset("auto", 0.02);
  params.flags = SPARSECOLL_OUT_PRESERVED;
  const sparsecollSegment_t segments[] = {{1000, 0, 0, 0}, {200, 0, 1, 0}, {1800, 0, 0, 0}};
  sparsecollReducerConfig_t config = SPARSECOLL_INIT(sparsecollReducerConfig_t);
  config.segments = segments;
  config.segmentCount = 3;
  AutoGroup group(params, &config);
  for (uint64_t step = 0; step < 28; ++step) {
    CAPTURE(step, group.plan());
    conservingStep(group, step);
  }
  REQUIRE(group.each([](int, sparsecollReducer_t reducer) { return sparsecollReducerSetScales(reducer, 0.5, 2); }) ==
          all(kRanks, sparsecollSuccess));
  group.fillIntegers(99, 3);
  REQUIRE(group.step() == all(kRanks, sparsecollSuccess));
  CHECK(group.collective() == "dense");
  for (uint64_t i = 0; i < kLength; ++i) {
    double sum = 0;
    for (const Elements& gradient : group.gradients) sum += gradient[i];
    if (group.outs[0][i] != sum) FAIL("entry " << i);
  }
}

TEST_CASE("what auto refuses, and what it is not") {
  for (uint32_t i = 0; const char* const name = sparsecollPresetName(i); ++i) CHECK(std::string(name) != "auto");
  CHECK(sparsecollSelectorName(sparsecollSelectAuto) == std::string("auto"));
  {
    AutoGroup group(0.01);
    SparseVector sum(sparsecollFloat32, kLength, kLength);
    CHECK(sparsecollReducerRunSparse(group.reducer(0), group.gradients[0].data(), sum.view(), nullptr) ==
          sparsecollUnsupported);
    uint64_t room = 0;
    group.run(3);
    sparsecollChoice_t one{};
    CHECK(sparsecollReducerGetPlan(group.reducer(0), &one, &room) == sparsecollCapacity);
    CHECK(room == 2);
    CHECK(sparsecollReducerGetPlan(group.reducer(0), &one, nullptr) == sparsecollInvalidArgument);
    CHECK(group.info().workspaceBytes <= group.info().memoryBoundBytes);
  }
  const auto created = [](const sparsecollParams_t& params, const sparsecollReducerConfig_t* config) {
    Group group(kRanks, kLength, sparsecollFloat32, params, config);
    const Results results = group.created();
    CHECK(results == all(kRanks, results[0]));
    return results[0];
  };
  sparsecollParams_t params = preset("auto", 0.01);
  params.collective = sparsecollCollAllGather;
  CHECK(created(params, nullptr) == sparsecollInvalidArgument);
  CHECK(created(preset("auto", 0), nullptr) == sparsecollInvalidArgument);
  const sparsecollChoice_t topka = {0, sparsecollSelectTopK, sparsecollCollAllGather};
  const sparsecollChoice_t late = {1, sparsecollSelectTopK, sparsecollCollAllGather};
  const sparsecollChoice_t micro = {0, sparsecollSelectMicro, sparsecollCollIndexUnion};
  for (const auto& [choices, expected] : {std::pair{Choices{topka}, sparsecollSuccess},
                                          {Choices{late}, sparsecollInvalidArgument},
                                          {Choices{topka, topka}, sparsecollInvalidArgument},
                                          {Choices{micro}, sparsecollInvalidArgument}}) {
    sparsecollReducerConfig_t config = planned(choices);
    CHECK(created(preset("auto", 0.01), &config) == expected);
    CHECK(created(preset("topka", 0.01), &config) == sparsecollInvalidArgument);
    config.transactional = 1;
    CHECK(created(preset("auto", 0.01), &config) == sparsecollUnsupported);
  }
  // Chosen once: too short for anything but dense. What has a name has one choice.
  sparsecollReducerConfig_t transactional = SPARSECOLL_INIT(sparsecollReducerConfig_t);
  transactional.transactional = 1;
  Group once(kRanks, kLength, sparsecollFloat32, preset("auto", 0.01), &transactional);
  CHECK(once.info().collective == sparsecollCollDense);
  Group named(kRanks, kLength, sparsecollFloat32, preset("topka", 0.01));
  CHECK(shown(choicesOf(named.reducer(0))) == "0 allgather, ");
}

TEST_CASE("survivors begin trials anew with their residuals") {
  const CostsInPlace costs(kSplitWins);
  AutoGroup group(0.05);
  for (uint64_t step = 0; step < 26; ++step) conservingStep(group, step);
  std::vector<Elements> residuals(kRanks);
  std::vector<std::string> collectives(kRanks);
  const Results results = onEach(group.ranks(), [&](int rank, sparsecollComm_t comm) {
    const auto r = static_cast<size_t>(rank);
    if (rank == 2) return sparsecollSuccess;
    const int excluded = 2;
    sparsecollComm_t left = nullptr;
    sparsecollReducer_t moved = nullptr;
    sparsecollResult_t result = sparsecollCommShrink(comm, &excluded, 1, &left, nullptr);
    if (result == sparsecollSuccess) result = sparsecollReducerMove(group.reducer(rank), left, &moved, nullptr);
    if (result == sparsecollSuccess) residuals[r] = residualOf(moved);
    for (int step = 0; result == sparsecollSuccess && step < 26; ++step)
      result = sparsecollReducerRun(moved, group.gradients[r].data(), group.outs[r].data(), nullptr);
    collectives[r] = sparsecollCollectiveName(infoOf(moved).collective);
    (void)sparsecollReducerDestroy(moved);
    (void)sparsecollCommDestroy(left);
    return result;
  });
  CHECK(results == all(kRanks, sparsecollSuccess));
  for (const size_t r : {0u, 1u}) {
    CHECK(residuals[r] == group.residual(static_cast<int>(r)));
    CHECK(collectives[r] == "split_gather");
  }
}
