// The preset auto: ranks change methods together, and nothing is lost on the way.
#include <set>
#include <string>

#include "tests/oracle/auto_group.h"
#include "tests/oracle/optimiser.h"
#include "tests/support/catch.h"

using namespace sparsecoll::test;

TEST_CASE("ranks change methods together, and the fastest one on the slowest rank stays") {
  const CostsInPlace costs(kSplitWins);
  AutoGroup group;
  group.run(30);
  // Two steps of each, then four of those that are not twice as slow, backwards. None is near the fastest.
  CHECK(group.plan() ==
        "0 allgather, 2 split_gather, 4 spardl, 6 dense, 12 split_gather, 16 allgather, 20 split_gather, ");
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

TEST_CASE("what trials cannot tell apart is decided for dense, or else for the first") {
  const auto chosen = [](uint64_t topka, uint64_t split, uint64_t spardl, uint64_t dense) {
    const CostsInPlace costs(
        {{{"topka", topka}, {"sparcml-split", split}, {"spardl", spardl}, {"dense", dense}}, -1, {}});
    AutoGroup group;
    group.run(42);
    return group.collective();
  };
  CHECK(chosen(104, 100, 102, 200) == "allgather");
  CHECK(chosen(106, 104, 100, 200) == "split_gather");
  CHECK(chosen(108, 106, 100, 200) == "spardl");
  CHECK(chosen(100, 100, 100, 104) == "dense");
  CHECK(chosen(100, 106, 106, 106) == "allgather");
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

TEST_CASE("another density starts trials again, without those that were too slow") {
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
  // Half of a sparse step's time may grow with the density: at 0.1 split_gather is predicted to take 550 us, dense 150.
  // Only spardl took twice as long as dense at 0.01.
  CostsInPlace::change(kDenseWins);
  REQUIRE(set(0.1) == all(kRanks, sparsecollSuccess));
  group.run(5);
  CHECK(group.plan() ==
        "0 allgather, 2 split_gather, 4 spardl, 6 dense, 12 split_gather, 16 allgather, 20 split_gather, "
        "30 allgather, 32 split_gather, 34 dense, ");
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

TEST_CASE("a warm-up that begins anew ends in the method's density, for every candidate") {
  const CostsInPlace costs({{{"topka", 200}, {"sparcml-split", 300}, {"spardl", 100}, {"dense", 950}}, -1, {}});
  const double dense = 0.25;
  sparsecollReducerConfig_t config = SPARSECOLL_INIT(sparsecollReducerConfig_t);
  config.densitySchedule = &dense;
  config.densityScheduleCount = 1;
  config.scheduleSteps = 4;
  AutoGroup group(0.01, sparsecollFloat32, &config);
  const auto steps = [&](uint64_t entries) {
    group.run(40);
    CHECK(group.collective() == "spardl");
    CHECK(group.stats(0).lastRequested == entries);
  };
  steps(90);
  REQUIRE(group.each([](int, sparsecollReducer_t reducer) { return sparsecollReducerSetDensity(reducer, 0.002); }) ==
          all(kRanks, sparsecollSuccess));
  steps(18);
  REQUIRE(group.each([](int, sparsecollReducer_t reducer) { return sparsecollReducerReset(reducer, nullptr); }) ==
          all(kRanks, sparsecollSuccess));
  steps(90);
}

TEST_CASE("the caller's own dense sum is not tried, and may win") {
  const CostsInPlace costs(kSplitWins);
  sparsecollReducerConfig_t config = SPARSECOLL_INIT(sparsecollReducerConfig_t);
  config.denseNs = 90 * kUs;
  AutoGroup group(0.01, sparsecollFloat32, &config);
  group.run(30);
  CHECK(group.collective() == "dense");
  // 102 us of split_gather are near the 90 that the caller's takes.
  CHECK(group.plan() == "0 allgather, 2 split_gather, 4 spardl, 6 split_gather, 14 dense, ");
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

TEST_CASE("a candidate that cannot do what is asked for is left out") {
  const CostsInPlace costs(kDenseWins);
  const sparsecollSegment_t segments[] = {{1000, 0.5, 0, 0}, {2000, 0, 0, 0}};  // SparDL knows no densities of tensors
  sparsecollReducerConfig_t config = SPARSECOLL_INIT(sparsecollReducerConfig_t);
  config.segments = segments;
  config.segmentCount = 2;
  AutoGroup group(preset("auto", 0.02), &config);
  std::set<std::string> seen;
  for (int step = 0; step < 28; ++step) {
    REQUIRE(group.step() == all(kRanks, sparsecollSuccess));
    seen.insert(group.collective());
  }
  CHECK(seen.count("dense") == 1);
  CHECK(seen.count("allgather") == 1);
  CHECK(seen.count("spardl") == 0);
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
    CHECK(group.stats(0).workspacePeakBytes >= group.stats(0).workspaceBytes);
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
  sparsecollReducerConfig_t counted = SPARSECOLL_INIT(sparsecollReducerConfig_t);
  counted.planCount = 1;
  CHECK(created(preset("auto", 0.01), &counted) == sparsecollInvalidArgument);
  sparsecollParams_t nothing = preset("auto", 0);
  nothing.flags = SPARSECOLL_SELECT_NOTHING;
  CHECK(created(nothing, nullptr) == sparsecollSuccess);
  const Choices choices{topka};
  const sparsecollReducerConfig_t replayed = planned(choices);
  CHECK(created(nothing, &replayed) == sparsecollUnsupported);
  {
    const AutoGroup group(0.01);
    const Ranks others(kRanks);
    sparsecollReducer_t moved = nullptr;
    CHECK(sparsecollReducerMove(group.reducer(0), others[0], &moved, nullptr) == sparsecollInvalidArgument);
    CHECK(moved == nullptr);
  }
  // Chosen once: too short for anything but dense. What has a name has one choice.
  sparsecollReducerConfig_t transactional = SPARSECOLL_INIT(sparsecollReducerConfig_t);
  transactional.transactional = 1;
  Group once(kRanks, kLength, sparsecollFloat32, preset("auto", 0.01), &transactional);
  CHECK(once.info().collective == sparsecollCollDense);
  Group named(kRanks, kLength, sparsecollFloat32, preset("topka", 0.01));
  CHECK(shown(choicesOf(named.reducer(0))) == "0 allgather, ");
}

namespace {

// What one rank does otherwise in one step, of which all are told.
void disagree(AutoGroup& group) {
  group.fillRandom(99);
  REQUIRE(sparsecollReducerSetScales(group.reducer(1), 2, 1) == sparsecollSuccess);
  REQUIRE(group.step() == all(kRanks, sparsecollMismatch));
  REQUIRE(sparsecollReducerSetScales(group.reducer(1), 1, 1) == sparsecollSuccess);
}

}  // namespace

TEST_CASE("after one step in another order two auto reducers find their methods again") {
  const CostsInPlace costs({{{"topka", 100}, {"sparcml-split", 1000}, {"spardl", 150}, {"dense", 150}}, -1, {}});
  const Ranks ranks(2);
  const sparsecollParams_t params = preset("auto", 0.01);
  const Reducers first(ranks, kLength, sparsecollFloat32, params, nullptr);
  const Reducers second(ranks, kLength, sparsecollFloat32, params, nullptr);
  const Elements ones(sparsecollFloat32, kLength);
  std::vector<Elements> outs(2, ones);
  const auto run = [&](const Reducers& ofZero, const Reducers& ofOne) {
    return onEach(ranks, [&](int rank, sparsecollComm_t) {
      const Reducers& reducers = rank == 0 ? ofZero : ofOne;
      return sparsecollReducerRun(reducers[rank], ones.data(), outs[static_cast<size_t>(rank)].data(), nullptr);
    });
  };
  const Results good = all(2, sparsecollSuccess);
  for (int step = 0; step < 4; ++step) {
    REQUIRE(run(first, first) == good);
    REQUIRE(run(second, second) == good);
  }
  REQUIRE(run(first, second) == all(2, sparsecollMismatch));
  for (const Reducers* const reducers : {&first, &second}) {
    int mismatches = 0;
    for (int step = 0; step < 40; ++step) mismatches += run(*reducers, *reducers) == good ? 0 : 1;
    CHECK(mismatches <= 1);
    CHECK_THAT(std::string(infoOf((*reducers)[0]).reason), Catch::Contains("topka, 0.1 ms"));
  }
}

TEST_CASE("a Mismatch in the warm-up of the density does not end it") {
  const CostsInPlace costs(kSplitWins);
  const double densities[] = {0.25};
  sparsecollReducerConfig_t config = SPARSECOLL_INIT(sparsecollReducerConfig_t);
  config.densitySchedule = densities;
  config.densityScheduleCount = 1;
  config.scheduleSteps = 20;
  AutoGroup group(0.01, sparsecollFloat32, &config);
  group.run(2);
  disagree(group);
  group.run(10);
  CHECK(group.collective() == "allgather");
  group.run(40);
  CHECK(group.collective() == "split_gather");
  CHECK(group.each([](int, sparsecollReducer_t reducer) { return sparsecollReducerSetDensity(reducer, 0.005); }) ==
        all(kRanks, sparsecollSuccess));
}

TEST_CASE("a step that ranks did not meet in leaves nothing to give back") {
  const CostsInPlace costs(kSplitWins);
  AutoGroup group(0.01);
  group.run(2);
  const Elements residual = group.residual(0);
  const Elements out = group.outs[0];
  const Elements zeros(sparsecollFloat32, kLength);
  Elements other(sparsecollFloat32, kLength);
  const sparsecollParams_t topka = preset("topka", 0.01);
  CHECK(onEach(group.ranks(), [&](int rank, sparsecollComm_t comm) {
          const auto r = static_cast<size_t>(rank);
          if (rank == 1)
            return sparsecollAllReduce(zeros.data(), other.data(), kLength, sparsecollFloat32, &topka, comm, nullptr);
          return sparsecollReducerRun(group.reducer(rank), zeros.data(), group.outs[r].data(), nullptr);
        }) == all(kRanks, sparsecollMismatch));
  REQUIRE(sparsecollReducerGiveBack(group.reducer(0), out.data(), 1, nullptr) == sparsecollSuccess);
  CHECK(group.residual(0) == residual);
}

TEST_CASE("a state that another candidate left finds no old sum in an out that is preserved") {
  sparsecollParams_t params = preset("auto", 0.001);
  params.flags = SPARSECOLL_OUT_PRESERVED;
  const Choices plan = {{0, sparsecollSelectTopK, sparsecollCollAllGather}, {3, 0, sparsecollCollDense}};
  const sparsecollReducerConfig_t config = planned(plan);
  AutoGroup group(params, &config);
  group.run(2);
  std::vector<Blob> blobs;
  for (int rank = 0; rank < kRanks; ++rank) blobs.push_back(exported(group.reducer(rank)));
  group.run(2);
  REQUIRE(group.collective() == "dense");
  for (int rank = 0; rank < kRanks; ++rank)
    REQUIRE(importInto(group.reducer(rank), blobs[static_cast<size_t>(rank)]) == sparsecollSuccess);
  uint64_t sent = 0;
  group.run(1);
  for (uint64_t i = 0; i < kLength; ++i) sent += group.outs[0][i] != 0 ? 1 : 0;
  CHECK(sent <= 9);  // three entries a rank
  CHECK(group.collective() == "allgather");
}

// 2^-26 is no number of Float16, and 65536 times as much is one.
TEST_CASE("a scaled loss keeps small gradients of half precision in dense steps, too") {
  constexpr double kLossScale = 65536, kEach = 0x1p-26;
  const CostsInPlace costs(kDenseWins);
  AutoGroup group(0.01, sparsecollFloat16);
  REQUIRE(group.each([](int, sparsecollReducer_t reducer) {
    return sparsecollReducerSetScales(reducer, 1 / kLossScale, kLossScale);
  }) == all(kRanks, sparsecollSuccess));
  std::vector<double> delivered(kLength);
  constexpr int kSteps = 40;
  for (int step = 0; step < kSteps; ++step) {
    for (Elements& gradient : group.gradients)
      for (size_t i = 0; i < kLength; ++i) gradient.set(i, kEach * kLossScale);
    REQUIRE(group.step() == all(kRanks, sparsecollSuccess));
    for (size_t i = 0; i < kLength; ++i) delivered[i] += group.outs[0][i] / kLossScale;
  }
  REQUIRE(group.collective() == "dense");
  CHECK(worst(group.outs[0], std::vector<double>(kLength, kRanks * kEach * kLossScale)) == 0);
  for (int rank = 0; rank < kRanks; ++rank) {
    const Elements residual = group.residual(rank);
    for (size_t i = 0; i < kLength; ++i) delivered[i] += residual[i];
  }
  CHECK(delivered == std::vector<double>(kLength, kSteps * kRanks * kEach));
}
