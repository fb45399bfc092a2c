// What an auto reducer has decided can be run again and saved, and its trials outlive what goes wrong in them.
#include "tests/oracle/auto_group.h"
#include "tests/support/catch.h"
#include "tests/support/node_groups.h"

using namespace sparsecoll::test;

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

TEST_CASE("another number of ranks takes residuals over and begins trials anew") {
  const CostsInPlace costs(kSplitWins);
  AutoGroup three(0.05);
  for (uint64_t step = 0; step < 26; ++step) conservingStep(three, step);
  std::vector<Blob> blobs;
  for (int rank = 0; rank < kRanks; ++rank) blobs.push_back(exported(three.reducer(rank)));
  Group two(2, kLength, sparsecollFloat32, preset("auto", 0.05));
  REQUIRE(two.created() == all(2, sparsecollSuccess));
  CHECK(importInto(two.reducer(0), blobs[0]) == sparsecollInvalidArgument);
  REQUIRE(two.each([&](int rank, sparsecollReducer_t reducer) {
    sparsecollResult_t result = sparsecollSuccess;
    for (auto r = static_cast<size_t>(rank); r < blobs.size() && result == sparsecollSuccess; r += 2)
      result = sparsecollReducerImportFrom(reducer, blobs[r].data(), blobs[r].size(), 1, nullptr);
    return result;
  }) == all(2, sparsecollSuccess));
  const Elements residuals[] = {three.residual(0), three.residual(1), three.residual(2)};
  const Elements merged[] = {two.residual(0), two.residual(1)};
  std::vector<double> held(kLength);
  std::vector<double> taken(kLength);
  for (uint64_t i = 0; i < kLength; ++i) {
    for (int rank = 0; rank < kRanks; ++rank) held[i] += residuals[static_cast<size_t>(rank)][i];
    for (int rank = 0; rank < 2; ++rank) taken[i] += merged[static_cast<size_t>(rank)][i];
  }
  CHECK(taken == held);
  const size_t choices = choicesOf(two.reducer(0)).size();
  two.fillRandom(1);
  for (int step = 0; step < 26; ++step) REQUIRE(two.step() == all(2, sparsecollSuccess));
  CHECK(choicesOf(two.reducer(0)).size() > choices + 6);
  CHECK(shown(choicesOf(two.reducer(1))) == shown(choicesOf(two.reducer(0))));
  CHECK(infoOf(two.reducer(0)).collective == sparsecollCollSplitGather);
}

TEST_CASE("what was decided waits for the end of a warm-up that is longer than the one it was decided after") {
  const CostsInPlace costs(kSplitWins);
  AutoGroup first(0.01);
  first.run(26);
  const double dense = 0.2;
  const sparsecollReducerConfig_t config = scheduled(dense, 40);
  AutoGroup second(0.01, sparsecollFloat32, &config);
  REQUIRE(second.each([&](int rank, sparsecollReducer_t reducer) {
    return importInto(reducer, exported(first.reducer(rank)));
  }) == all(kRanks, sparsecollSuccess));
  second.run(14);
  CHECK(second.stats(0).lastRequested == 600);
  second.run(1);
  CHECK(second.stats(0).lastRequested == 30);
  second.run(40);
  CHECK(second.collective() == first.collective());
  CHECK(second.each([](int, sparsecollReducer_t reducer) { return sparsecollReducerSetDensity(reducer, 0.005); }) ==
        all(kRanks, sparsecollSuccess));
}
