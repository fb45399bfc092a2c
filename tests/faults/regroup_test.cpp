// Communicators of parts of the ranks, and of those that are left, on threads.
#include "tests/support/catch.h"

#include <thread>

#include "tests/support/group.h"
#include "tests/support/sent_dense.h"

using namespace sparsecoll::test;

namespace {

constexpr uint64_t kLength = 256;

float sumOver(sparsecollComm_t comm, float value) {
  std::vector<float> values(kLength, value);
  sparsecollParams_t params = preset("topka", 1);
  if (sparsecollAllReduce(values.data(), values.data(), kLength, sparsecollFloat32, &params, comm, nullptr) !=
      sparsecollSuccess)
    return -1;
  return values[kLength / 2];
}

sparsecollConfig_t limits(uint64_t initTimeoutMs) {
  sparsecollConfig_t config = SPARSECOLL_INIT(sparsecollConfig_t);
  config.initTimeoutMs = initTimeoutMs;
  return config;
}

}  // namespace

TEST_CASE("colors part the ranks, keys number them, and all of them sum on") {
  const Ranks ranks(5);
  std::vector<int> newRanks(5, -2);
  std::vector<float> sums(5), whole(5);
  const Results results = onEach(ranks, [&](int rank, sparsecollComm_t comm) {
    const auto r = static_cast<size_t>(rank);
    sparsecollComm_t part = comm;
    const int color = rank == 4 ? SPARSECOLL_NO_COLOR : rank % 2;
    const sparsecollResult_t result = sparsecollCommSplit(comm, color, -rank, &part, nullptr);
    if (part != nullptr) {
      if (sparsecollCommGetInfo(part, &newRanks[r], nullptr, nullptr) != sparsecollSuccess) newRanks[r] = -3;
      sums[r] = sumOver(part, static_cast<float>(1 << rank));
      (void)sparsecollCommDestroy(part);
    }
    whole[r] = sumOver(comm, 1);
    return result;
  });
  CHECK(results == all(5, sparsecollSuccess));
  CHECK(newRanks == std::vector<int>{1, 1, 0, 0, -2});
  CHECK(sums == std::vector<float>{5, 10, 5, 10, 0});
  CHECK(whole == std::vector<float>(5, 5));
}

// A rank may be at its second part while others still make their first.
TEST_CASE("ranks part again and again, each time in another way") {
  constexpr int kRanks = 4;
  const Ranks ranks(kRanks);
  std::vector<std::vector<float>> sums(kRanks);
  const Results results = onEach(ranks, [&](int rank, sparsecollComm_t comm) {
    for (const int color : {rank / 2, rank % 2, rank == 3 ? 1 : 0, 0}) {
      sparsecollComm_t part = nullptr;
      const sparsecollResult_t result = sparsecollCommSplit(comm, color, 0, &part, nullptr);
      if (result != sparsecollSuccess) return result;
      sums[static_cast<size_t>(rank)].push_back(sumOver(part, static_cast<float>(1 << rank)));
      (void)sparsecollCommDestroy(part);
    }
    return sparsecollSuccess;
  });
  CHECK(results == all(kRanks, sparsecollSuccess));
  CHECK(sums == std::vector<std::vector<float>>{{3, 5, 7, 15}, {3, 10, 7, 15}, {12, 5, 7, 15}, {12, 10, 8, 15}});
}

namespace {

void checkSurvivors(const sparsecollReducerConfig_t& config) {
  constexpr int kRanks = 4;
  Ranks ranks(kRanks);
  const Reducers reducers(ranks, kLength, sparsecollFloat32, preset("topka", 0.1), &config);
  std::vector<int64_t> lost(kLength, 0), delivered(kLength, 0);
  std::mutex mutex;
  const sparsecollConfig_t bounded = limits(60000);
  const Results results = onEach(ranks, [&](int rank, sparsecollComm_t comm) {
    Random random(static_cast<uint64_t>(rank));
    std::vector<float> gradient(kLength), out(kLength);
    sparsecollResult_t result = sparsecollSuccess;
    for (int step = 0; result == sparsecollSuccess; ++step) {
      if (rank == 2 && step == 4) return sparsecollCommDestroy(ranks.release(2));
      for (float& x : gradient) x = static_cast<float>(random.below(9)) - 4;
      result = sparsecollReducerRun(reducers[rank], gradient.data(), out.data(), nullptr);
    }
    if (result != sparsecollPeerFailed) return result;
    const Elements before = residualOf(reducers[rank]);
    sparsecollComm_t fewer = nullptr;
    result = sparsecollCommShrink(comm, nullptr, 0, &fewer, &bounded);
    if (result != sparsecollSuccess) return result;
    sparsecollReducer_t moved = nullptr;
    int steppedBack = -1;
    result = sparsecollReducerMove(reducers[rank], fewer, &moved, &steppedBack);
    if (result != sparsecollSuccess) return result;
    if (steppedBack == 0 && !(residualOf(moved) == before)) return sparsecollCorrupted;
    const Elements start = residualOf(moved);
    for (float& x : gradient) x = static_cast<float>(random.below(9)) - 4;
    result = sparsecollReducerRun(moved, gradient.data(), out.data(), nullptr);
    const Elements end = residualOf(moved);
    const std::lock_guard lock(mutex);
    for (size_t i = 0; i < kLength; ++i) {
      lost[i] += static_cast<int64_t>(start[i] + static_cast<double>(gradient[i]) - end[i]);
      delivered[i] = static_cast<int64_t>(out[i]);
    }
    (void)sparsecollReducerDestroy(moved);
    (void)sparsecollCommDestroy(fewer);
    return result;
  });
  CHECK(results == all(kRanks, sparsecollSuccess));
  CHECK(lost == delivered);
}

}  // namespace

TEST_CASE("ranks that are left after one was destroyed go on with their residuals") {
  sparsecollReducerConfig_t config = SPARSECOLL_INIT(sparsecollReducerConfig_t);
  config.transactional = 1;
  checkSurvivors(config);
}

TEST_CASE("so do those that send tensors dense") { checkSurvivors(*SentDense(kLength, true).config()); }

TEST_CASE("who is excluded is left out, who does not call shows as Timeout, and a shrunk communicator is dead") {
  const Ranks ranks(3);
  const sparsecollConfig_t patient = limits(60000);
  const sparsecollConfig_t hasty = limits(50);
  const int excluded[] = {1};
  sparsecollComm_t early = nullptr;
  CHECK(sparsecollCommShrink(ranks[0], nullptr, 0, &early, &hasty) == sparsecollTimeout);
  CHECK_THAT(std::string(sparsecollGetLastError()), Catch::Contains("1, 2"));
  CHECK(sparsecollCommShrink(ranks[2], nullptr, 0, &early, &hasty) == sparsecollTimeout);  // its first call, too
  std::vector<float> sums(3);
  const Results results = onEach(ranks, [&](int rank, sparsecollComm_t comm) {
    if (rank == 1) return sparsecollSuccess;
    sparsecollComm_t fewer = nullptr;
    const sparsecollResult_t result = sparsecollCommShrink(comm, excluded, 1, &fewer, &patient);
    if (result != sparsecollSuccess) return result;
    sums[static_cast<size_t>(rank)] = sumOver(fewer, static_cast<float>(1 << rank));
    (void)sparsecollCommDestroy(fewer);
    sparsecollResult_t state = sparsecollSuccess;
    return sparsecollCommGetAsyncError(comm, &state) == sparsecollSuccess ? state : sparsecollInternalError;
  });
  CHECK(results == Results{sparsecollInvalidUsage, sparsecollSuccess, sparsecollInvalidUsage});
  CHECK(sums == std::vector<float>{5, 0, 5});
}

TEST_CASE("wrong arguments of the calls that regroup are refused") {
  const Ranks ranks(2);
  sparsecollComm_t made = nullptr;
  sparsecollReducer_t moved = nullptr;
  const int wrong[] = {2}, self[] = {0};
  CHECK(sparsecollCommSplit(ranks[0], -2, 0, &made, nullptr) == sparsecollInvalidArgument);
  CHECK(sparsecollCommSplit(ranks[0], 0, 0, nullptr, nullptr) == sparsecollInvalidArgument);
  CHECK(sparsecollCommShrink(ranks[0], wrong, 1, &made, nullptr) == sparsecollInvalidArgument);
  CHECK(sparsecollCommShrink(ranks[0], self, 1, &made, nullptr) == sparsecollInvalidArgument);
  CHECK(sparsecollCommShrink(ranks[0], nullptr, 1, &made, nullptr) == sparsecollInvalidArgument);
  CHECK(sparsecollCommShrink(ranks[0], nullptr, -1, &made, nullptr) == sparsecollInvalidArgument);
  const Reducers reducers(ranks, kLength, sparsecollFloat32, preset("topka", 0.1));
  CHECK(sparsecollReducerMove(reducers[0], ranks[0], &moved, nullptr) == sparsecollInvalidArgument);
  CHECK(sparsecollReducerMove(reducers[0], ranks[0], nullptr, nullptr) == sparsecollInvalidArgument);
  CHECK(made == nullptr);
  CHECK(moved == nullptr);
}
