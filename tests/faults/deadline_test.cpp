// Every wait ends (T39, T45): a rank that skips a call, one that destroys its communicator, and what is left
// afterwards.
#include "tests/support/catch.h"

#include <algorithm>
#include <functional>

#include "tests/support/group.h"

using namespace sparsecoll::test;

namespace {

constexpr uint64_t kLength = 2000;

sparsecollConfig_t impatient(uint64_t timeoutMs = 300) {
  sparsecollConfig_t config = SPARSECOLL_INIT(sparsecollConfig_t);
  config.opTimeoutMs = timeoutMs;
  return config;
}

struct MethodRow {
  const char* preset;
  bool faithful;
};
constexpr MethodRow kMethods[] = {
    {"dense", false}, {"topka", false}, {"threshold", false}, {"micro", false}, {"micro", true}};

sparsecollParams_t paramsOf(const MethodRow& row) {
  sparsecollParams_t params = preset(row.preset, std::string(row.preset) == "dense" ? 0 : 0.05);
  params.faithful = row.faithful ? 1 : 0;
  return params;
}

bool isFatal(sparsecollResult_t result) {
  return result == sparsecollTimeout || result == sparsecollPeerFailed || result == sparsecollAborted;
}

// On a dead communicator every call that would work with peers ends at once, and those for the end still work.
void checkDead(sparsecollComm_t comm, sparsecollReducer_t reducer) {
  sparsecollResult_t state = sparsecollSuccess;
  CHECK(sparsecollCommGetAsyncError(comm, &state) == sparsecollSuccess);
  CHECK(isFatal(state));
  const sparsecollFailure_t failure = failureOf(comm);
  CHECK(failure.result == state);
  CHECK(std::string(failure.text).size() > 10);
  std::vector<float> vector(kLength);
  const sparsecollParams_t params = preset("topka", 0.1);
  SparseVector in(sparsecollFloat32, kLength, 1);
  SparseVector out(sparsecollFloat32, kLength, 1);
  CHECK(sparsecollCommWait(comm, nullptr, 1) == state);
  CHECK(sparsecollReducerRun(reducer, vector.data(), vector.data(), nullptr) == state);
  CHECK(sparsecollAllReduce(vector.data(), vector.data(), kLength, sparsecollFloat32, &params, comm, nullptr) == state);
  CHECK(sparsecollAllReduceVector(in.view(), out.view(), nullptr, comm, nullptr) == state);
  CHECK(sparsecollAllGatherVector(in.view(), out.view(), comm, nullptr) == state);
  CHECK(sparsecollReduceScatterVector(in.view(), out.view(), nullptr, comm, nullptr) == state);
  sparsecollReducer_t another = nullptr;
  CHECK(sparsecollReducerCreate(&another, kLength, sparsecollFloat32, &params, nullptr, comm) == state);
  CHECK(another == nullptr);
  CHECK(sparsecollCommAbort(comm) == sparsecollSuccess);
  sparsecollResult_t still = sparsecollSuccess;
  CHECK(sparsecollCommGetAsyncError(comm, &still) == sparsecollSuccess);
  CHECK(still == state);  // the first reason stays
}

// Everyone who waited got Timeout naming the rank that is missing, or PeerFailed because of one who did; at least one
// the former.
void checkBlame(const Ranks& ranks, const Results& results, int missing) {
  int timeouts = 0;
  for (int rank = 0; rank < ranks.count(); ++rank) {
    if (rank == missing) continue;
    CAPTURE(rank);
    const sparsecollFailure_t failure = failureOf(ranks[rank]);
    const sparsecollResult_t result = results[static_cast<size_t>(rank)];
    CHECK((result == sparsecollTimeout || result == sparsecollPeerFailed));
    CHECK(failure.result == result);
    if (result == sparsecollTimeout) {
      ++timeouts;
      CHECK(failure.peer == missing);
      CHECK_THAT(failure.text, Catch::Contains(std::to_string(missing)));
    } else {
      CHECK(failure.peer >= 0);
      CHECK(failure.peer != rank);
    }
  }
  CHECK(timeouts >= 1);
}

}  // namespace

TEST_CASE("a rank that skips a step is named by the others") {
  const sparsecollConfig_t config = impatient();
  for (const MethodRow& method : kMethods)
    for (const int count : {2, 3, 4, 16}) {
      const int missing = count - 2;
      CAPTURE(method.preset, method.faithful, count, missing);
      Group group(count, kLength, sparsecollFloat32, paramsOf(method), nullptr, &config);
      group.fillRandom(1);
      REQUIRE(group.step() == all(count, sparsecollSuccess));
      const Results results = group.each([&](int rank, sparsecollReducer_t reducer) {
        const auto r = static_cast<size_t>(rank);
        if (rank == missing) return sparsecollSuccess;
        return sparsecollReducerRun(reducer, group.gradients[r].data(), group.outs[r].data(), nullptr);
      });
      checkBlame(group.ranks(), results, missing);
      for (int rank = 0; rank < count; ++rank) {
        if (rank == missing) continue;
        checkDead(group.ranks()[rank], group.reducer(rank));
      }
      // The one that slept finds out as soon as it calls.
      const auto m = static_cast<size_t>(missing);
      CHECK(sparsecollReducerRun(group.reducer(missing), group.gradients[m].data(), group.outs[m].data(), nullptr) ==
            sparsecollPeerFailed);
      checkDead(group.ranks()[missing], group.reducer(missing));
    }
}

TEST_CASE("a rank that skips another collective call is named too") {
  const sparsecollConfig_t config = impatient();
  const sparsecollParams_t params = preset("topka", 0.1);
  for (const int which : {0, 1, 2, 3, 4})
    for (const int count : {2, 5}) {
      CAPTURE(which, count);
      const Ranks ranks(count, &config);
      const Results results = onEach(ranks, [&](int rank, sparsecollComm_t comm) {
        if (rank == 0) return sparsecollSuccess;
        std::vector<float> vector(kLength);
        SparseVector in(sparsecollFloat32, kLength, 1);
        SparseVector out(sparsecollFloat32, kLength, 1);
        sparsecollReducer_t reducer = nullptr;
        switch (which) {
          case 0:
            return sparsecollReducerCreate(&reducer, kLength, sparsecollFloat32, &params, nullptr, comm);
          case 1:
            return sparsecollAllReduce(vector.data(), vector.data(), kLength, sparsecollFloat32, &params, comm,
                                       nullptr);
          case 2:
            return sparsecollAllReduceVector(in.view(), out.view(), nullptr, comm, nullptr);
          case 3:
            return sparsecollAllGatherVector(in.view(), out.view(), comm, nullptr);
          default:
            return sparsecollReduceScatterVector(in.view(), out.view(), nullptr, comm, nullptr);
        }
      });
      checkBlame(ranks, results, 0);
    }
}

TEST_CASE("all but one skip") {
  const sparsecollConfig_t config = impatient();
  Group group(4, kLength, sparsecollFloat32, preset("micro", 0.05), nullptr, &config);
  CHECK(sparsecollReducerRun(group.reducer(1), group.gradients[1].data(), group.outs[1].data(), nullptr) ==
        sparsecollTimeout);
  const sparsecollFailure_t failure = failureOf(group.ranks()[1]);
  CHECK(failure.peer == 0);
  for (const char* const missing : {"0", "2", "3"}) CHECK_THAT(failure.text, Catch::Contains(missing));
}

TEST_CASE("a rank may be late, as long as it comes in time") {
  const sparsecollConfig_t config = impatient(60000);
  for (const MethodRow& method : kMethods) {
    CAPTURE(method.preset, method.faithful);
    Group group(3, kLength, sparsecollFloat32, paramsOf(method), nullptr, &config);
    group.fillRandom(2);
    CHECK(group.each([&](int rank, sparsecollReducer_t reducer) {
      const auto r = static_cast<size_t>(rank);
      if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(100));
      return sparsecollReducerRun(reducer, group.gradients[r].data(), group.outs[r].data(), nullptr);
    }) == all(3, sparsecollSuccess));
    CHECK(group.outsEqual());
  }
}

TEST_CASE("destroying a communicator that others wait for gives them PeerFailed") {
  for (const MethodRow& method : kMethods)
    for (const bool late : {false, true}) {
      CAPTURE(method.preset, method.faithful, late);
      const sparsecollConfig_t config = impatient(60000);
      Group group(3, kLength, sparsecollFloat32, paramsOf(method), nullptr, &config);
      group.fillRandom(3);
      REQUIRE(group.step() == all(3, sparsecollSuccess));
      const Results results = group.each([&](int rank, sparsecollReducer_t reducer) {
        const auto r = static_cast<size_t>(rank);
        if (rank != 2) return sparsecollReducerRun(reducer, group.gradients[r].data(), group.outs[r].data(), nullptr);
        if (late) std::this_thread::sleep_for(std::chrono::milliseconds(50));  // most likely they wait by then
        return sparsecollCommDestroy(group.ranks().release(2));
      });
      CHECK(results == Results{sparsecollPeerFailed, sparsecollPeerFailed, sparsecollSuccess});
      for (int rank = 0; rank < 2; ++rank) {
        CHECK(failureOf(group.ranks()[rank]).peer >= 0);
        checkDead(group.ranks()[rank], group.reducer(rank));
      }
      // A reducer outlives its communicator as a handle only.
      std::vector<float> vector(kLength);
      CHECK(sparsecollReducerRun(group.reducer(2), vector.data(), vector.data(), nullptr) == sparsecollInvalidUsage);
    }
}

TEST_CASE("the state of a reducer can be saved from a dead communicator") {
  const sparsecollConfig_t config = impatient();
  Group group(2, kLength, sparsecollFloat32, preset("topka", 0.05), nullptr, &config);
  group.fillIntegers(4);
  REQUIRE(group.step() == all(2, sparsecollSuccess));
  const Elements before = group.residual(0);
  CHECK(sparsecollReducerRun(group.reducer(0), group.gradients[0].data(), group.outs[0].data(), nullptr) ==
        sparsecollTimeout);
  // At most this step's gradient in addition.
  const Elements after = group.residual(0);
  for (uint64_t i = 0; i < kLength; ++i)
    if (after[i] != before[i] && after[i] != before[i] + group.gradients[0][i]) FAIL("entry " << i);
  size_t bytes = 0;
  CHECK(sparsecollReducerExport(group.reducer(0), nullptr, &bytes, nullptr) == sparsecollSuccess);
  CHECK(bytes > kLength * 4);
}

TEST_CASE("transactional: a step that found no peers leaves the residual as it was") {
  const sparsecollConfig_t config = impatient();
  for (const char* const name : {"topka", "threshold", "micro"}) {
    CAPTURE(name);
    sparsecollReducerConfig_t reducerConfig = SPARSECOLL_INIT(sparsecollReducerConfig_t);
    reducerConfig.transactional = 1;
    Group group(2, kLength, sparsecollFloat32, preset(name, 0.05), &reducerConfig, &config);
    for (uint64_t step = 0; step < 3; ++step) {
      group.fillRandom(step);
      REQUIRE(group.step() == all(2, sparsecollSuccess));
    }
    const Elements before = group.residual(0);
    CHECK(sparsecollReducerRun(group.reducer(0), group.gradients[0].data(), group.outs[0].data(), nullptr) ==
          sparsecollTimeout);
    CHECK((group.residual(0) == before));
  }
}
