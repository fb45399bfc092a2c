// Survivors of a killed rank go on: they agree on who is left and on the step, nothing of their residuals is lost, and
// the sums of the smaller communicator are right. Communicators of parts of another one's ranks, and those made without
// an id.
#include <algorithm>
#include <csignal>
#include <ctime>
#include <thread>

#include "tests/processes/processes.h"
#include "tests/processes/shared_board.h"
#include "tests/support/catch.h"
#include "tests/support/wanted.h"

namespace sparsecoll::test {
namespace {

constexpr uint64_t kLength = 64;

// Integers, so that every sum is exact.
void fill(std::vector<float>& gradient, int rank, int step) {
  Random random(static_cast<uint64_t>(rank) * 7919 + static_cast<uint64_t>(step));
  for (float& x : gradient) x = static_cast<float>(static_cast<int>(random.below(17)) - 8);
}

std::vector<float> residual(sparsecollReducer_t reducer) {
  const Elements all = residualOf(reducer);
  std::vector<float> values;
  for (size_t i = 0; i < all.size(); ++i) values.push_back(static_cast<float>(all[i]));
  return values;
}

// Steps of a moved reducer: what left this rank's residual, and what was delivered.
sparsecollResult_t goOn(Finding& finding, sparsecollReducer_t reducer, int rank) {
  std::vector<float> gradient(kLength), out(kLength);
  const std::vector<float> before = residual(reducer);
  for (size_t i = 0; i < kLength; ++i) finding.lost[i] += static_cast<int64_t>(before[i]);
  for (int step = 0; step < 5; ++step) {
    fill(gradient, rank, 1000 + step);
    const sparsecollResult_t ran = sparsecollReducerRun(reducer, gradient.data(), out.data(), nullptr);
    if (ran != sparsecollSuccess) return ran;
    for (size_t i = 0; i < kLength; ++i) {
      finding.lost[i] += static_cast<int64_t>(gradient[i]);
      finding.delivered[i] += static_cast<int64_t>(out[i]);
    }
  }
  const std::vector<float> after = residual(reducer);
  for (size_t i = 0; i < kLength; ++i) finding.lost[i] -= static_cast<int64_t>(after[i]);
  return sparsecollSuccess;
}

struct Position {
  int rank = -1, ranks = -1;
};
Position placeIn(sparsecollComm_t comm) {
  Position place;
  if (sparsecollCommGetInfo(comm, &place.rank, &place.ranks, nullptr) != sparsecollSuccess) place = {};
  return place;
}

enum Stage { kSteps = 1, kFailed, kShrunk, kMoved, kDone };

// numbers: 0 steps completed, 1 stepped back, 2 the moved residual is the right one, 3 ranks left, 4 the new rank.
void survive(Finding& finding, sparsecollComm_t comm, int rank, const char* method) {
  sparsecollParams_t params = preset(method, 0.1);
  sparsecollReducerConfig_t config = SPARSECOLL_INIT(sparsecollReducerConfig_t);
  config.transactional = 1;
  sparsecollReducer_t reducer = nullptr;
  finding.result = sparsecollReducerCreate(&reducer, kLength, sparsecollFloat32, &params, &config, comm);
  if (finding.result != sparsecollSuccess) return;
  std::vector<std::vector<float>> history = {residual(reducer)};
  std::vector<float> gradient(kLength), out(kLength);
  for (int step = 0;; ++step) {
    fill(gradient, rank, step);
    finding.result = sparsecollReducerRun(reducer, gradient.data(), out.data(), nullptr);
    if (finding.result != sparsecollSuccess) break;
    history.push_back(residual(reducer));
    if (step == 2) finding.stage = kSteps;
  }
  finding.peer = failureOf(comm).peer;
  finding.stage = kFailed;
  sparsecollComm_t fewer = nullptr;
  sparsecollConfig_t limits = SPARSECOLL_INIT(sparsecollConfig_t);
  limits.initTimeoutMs = 30000;
  finding.made = sparsecollCommShrink(comm, nullptr, 0, &fewer, &limits);
  if (finding.made != sparsecollSuccess) {
    std::snprintf(finding.text, sizeof finding.text, "%s", sparsecollGetLastError());
    return;
  }
  finding.stage = kShrunk;
  int steppedBack = -1;
  const Position place = placeIn(fewer);
  sparsecollReducer_t moved = nullptr;
  finding.made = sparsecollReducerMove(reducer, fewer, &moved, &steppedBack);
  if (finding.made != sparsecollSuccess) {
    std::snprintf(finding.text, sizeof finding.text, "%s", sparsecollGetLastError());
    return;
  }
  finding.stage = kMoved;
  (void)sparsecollReducerDestroy(reducer);
  (void)sparsecollCommDestroy(comm);
  const size_t at = history.size() - 1 - static_cast<size_t>(steppedBack);
  finding.numbers[0] = static_cast<int64_t>(history.size()) - 1;
  finding.numbers[1] = steppedBack;
  finding.numbers[2] = residual(moved) == history[at] ? 1 : 0;
  finding.numbers[3] = place.ranks;
  finding.numbers[4] = place.rank;
  finding.made = goOn(finding, moved, rank);
  (void)sparsecollReducerDestroy(moved);
  (void)sparsecollCommDestroy(fewer);
  finding.stage = kDone;
}

}  // namespace

TEST_CASE("survivors of a killed rank go on at the same step, and nothing of theirs is lost") {
  const std::vector<Way> all = ways();
  const auto seed = wanted("SPARSECOLL_TEST_SEED", static_cast<uint64_t>(time(nullptr)));
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  Random random(seed);
  int steppedBack = 0;
  const auto count = static_cast<int>(wanted("SPARSECOLL_TEST_SHRINKS", 6));
  for (int trial = 0; trial < count; ++trial) {
    const int ranks = 3 + static_cast<int>(random.below(2));
    const int victim = static_cast<int>(random.below(static_cast<uint64_t>(ranks)));
    const auto afterUs = static_cast<useconds_t>(random.below(20000));
    const char* const method = trial % 2 == 0 ? "topka" : "micro";
    const Way way = all[static_cast<size_t>(trial) % all.size()];
    CAPTURE(way.name(), trial, ranks, victim, afterUs, method);
    Processes processes(ranks, way);
    processes.start([&](int rank, Finding& finding) {
      sparsecollComm_t comm = processes.join(rank);
      if (finding.made == sparsecollSuccess) survive(finding, comm, rank, method);
    });
    REQUIRE(processes.awaitStage(victim, kSteps));
    usleep(afterUs);
    kill(processes.process(victim), SIGKILL);
    REQUIRE(processes.awaitEnd(90000, {victim}));
    int64_t step = -1;
    std::vector<int64_t> lost(kLength, 0);
    int newRank = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      if (rank == victim) continue;
      const Finding& finding = processes[rank];
      CAPTURE(rank, finding.text, finding.stage.load(), finding.result);
      REQUIRE(finding.stage == kDone);
      CHECK(finding.made == sparsecollSuccess);
      CHECK(finding.result == sparsecollPeerFailed);
      CHECK(finding.peer == victim);
      CHECK(finding.numbers[2] == 1);
      CHECK(finding.numbers[3] == ranks - 1);
      CHECK(finding.numbers[4] == newRank++);
      if (step < 0) step = finding.numbers[0] - finding.numbers[1];
      CHECK(finding.numbers[0] - finding.numbers[1] == step);
      steppedBack += static_cast<int>(finding.numbers[1]);
      for (size_t i = 0; i < kLength; ++i) lost[i] += finding.lost[i];
    }
    const int any = victim == 0 ? 1 : 0;
    for (size_t i = 0; i < kLength; ++i) {
      CAPTURE(i);
      CHECK(lost[i] == processes[any].delivered[i]);
    }
  }
  std::printf("%d kills: survivors went on each time, %d of them one step back\n", count, steppedBack);
}

TEST_CASE("a rank that is alive but excluded is left out, and learns of it") {
  const Way way = GENERATE(from_range(engines()));
  CAPTURE(way.name());
  Processes processes(3, way);
  processes.start([&](int rank, Finding& finding) {
    sparsecollComm_t comm = processes.join(rank);
    if (finding.made != sparsecollSuccess) return;
    const int excluded[] = {1};
    sparsecollConfig_t limits = SPARSECOLL_INIT(sparsecollConfig_t);
    limits.initTimeoutMs = 20000;
    sparsecollComm_t fewer = nullptr;
    finding.result = sparsecollCommShrink(comm, excluded, rank == 1 ? 0 : 1, &fewer, &limits);
    finding.numbers[0] = placeIn(fewer).ranks;
    (void)sparsecollCommDestroy(fewer);
    (void)sparsecollCommDestroy(comm);
  });
  REQUIRE(processes.awaitEnd(60000));
  for (const int rank : {0, 2}) {
    CHECK(processes[rank].result == sparsecollSuccess);
    CHECK(processes[rank].numbers[0] == 2);
  }
  CHECK(processes[1].result == sparsecollPeerFailed);
}

TEST_CASE("survivors that wait for one that does not call get Timeout, and its name") {
  const Way way = GENERATE(from_range(engines()));
  CAPTURE(way.name());
  Processes processes(3, way);
  processes.start([&](int rank, Finding& finding) {
    sparsecollComm_t comm = processes.join(rank);
    if (finding.made != sparsecollSuccess) return;
    sparsecollConfig_t limits = SPARSECOLL_INIT(sparsecollConfig_t);
    limits.initTimeoutMs = 500;
    sparsecollComm_t fewer = nullptr;
    if (rank != 1) {
      finding.result = sparsecollCommShrink(comm, nullptr, 0, &fewer, &limits);
      std::snprintf(finding.text, sizeof finding.text, "%s", sparsecollGetLastError());
    } else {
      usleep(2000000);
    }
    (void)sparsecollCommDestroy(comm);
  });
  REQUIRE(processes.awaitEnd(60000));
  for (const int rank : {0, 2}) {
    CHECK(processes[rank].result == sparsecollTimeout);
    CHECK_THAT(std::string(processes[rank].text), Catch::Contains("rank(s) 1 "));
  }
}

TEST_CASE("communicators of parts of the ranks sum over their own") {
  const Way way = GENERATE(from_range(engines()));
  CAPTURE(way.name());
  Processes processes(4, way);
  processes.start([&](int rank, Finding& finding) {
    sparsecollComm_t comm = processes.join(rank);
    if (finding.made != sparsecollSuccess) return;
    sparsecollComm_t part = nullptr, none = comm;
    sparsecollConfig_t named = SPARSECOLL_INIT(sparsecollConfig_t);
    named.transport = way.engine;
    finding.result = sparsecollCommSplit(comm, rank % 2, -rank, &part, &named);  // the other way round
    finding.numbers[5] = sparsecollCommSplit(comm, SPARSECOLL_NO_COLOR, 0, &none, nullptr);
    finding.numbers[6] = none == nullptr ? 1 : 0;
    if (finding.result != sparsecollSuccess) {
      std::snprintf(finding.text, sizeof finding.text, "%s", sparsecollGetLastError());
      return;
    }
    finding.numbers[0] = placeIn(part).rank;
    finding.numbers[1] = placeIn(part).ranks;
    for (int turn = 0; turn < 2; ++turn) {  // the part, and the whole again
      std::vector<float> values(100, static_cast<float>(1 << rank));
      sparsecollParams_t params = preset("topka", 1);
      finding.numbers[2 + turn] = sparsecollAllReduce(values.data(), values.data(), values.size(), sparsecollFloat32,
                                                      &params, turn == 0 ? part : comm, nullptr);
      finding.numbers[7 + turn] = static_cast<int64_t>(values[50]);
    }
    (void)sparsecollCommDestroy(part);
    (void)sparsecollCommDestroy(comm);
  });
  REQUIRE(processes.awaitEnd(60000));
  for (int rank = 0; rank < 4; ++rank) {
    CAPTURE(rank, processes[rank].text);
    CHECK(processes[rank].result == sparsecollSuccess);
    CHECK(processes[rank].numbers[0] == (rank < 2 ? 1 : 0));
    CHECK(processes[rank].numbers[1] == 2);
    CHECK(processes[rank].numbers[2] == sparsecollSuccess);
    CHECK(processes[rank].numbers[3] == sparsecollSuccess);
    CHECK(processes[rank].numbers[5] == sparsecollSuccess);
    CHECK(processes[rank].numbers[6] == 1);
    CHECK(processes[rank].numbers[7] == (rank % 2 == 0 ? 5 : 10));
    CHECK(processes[rank].numbers[8] == 15);
  }
}

TEST_CASE("an abort at a random moment while ranks split ends that on all of them") {
  const Way way = GENERATE(from_range(engines()));
  CAPTURE(way.name());
  constexpr int kRanks = 3, kTrials = 12;
  Processes processes(kRanks, way);
  processes.start([&](int rank, Finding& finding) {
    Random random(7);
    for (int trial = 0; trial < kTrials; ++trial) {
      const auto afterUs = static_cast<useconds_t>(random.below(30000));
      sparsecollComm_t comm = processes.join(rank);
      if (finding.made != sparsecollSuccess) return;
      const bool aborts = rank == trial % kRanks;
      std::thread other([&] {
        if (!aborts) return;
        usleep(afterUs);
        (void)sparsecollCommAbort(comm);
      });
      sparsecollConfig_t patient = SPARSECOLL_INIT(sparsecollConfig_t);
      patient.initTimeoutMs = SPARSECOLL_NO_TIMEOUT;
      sparsecollResult_t result = sparsecollSuccess;
      for (; result == sparsecollSuccess; ++finding.numbers[1]) {
        sparsecollComm_t part = nullptr;
        result = sparsecollCommSplit(comm, rank % 2, 0, &part, &patient);
        (void)sparsecollCommDestroy(part);
      }
      if (result != (aborts ? sparsecollAborted : sparsecollPeerFailed))
        std::snprintf(finding.text, sizeof finding.text, "trial %d: %s: %s", trial, sparsecollGetErrorString(result),
                      sparsecollGetLastError());
      other.join();
      (void)sparsecollCommDestroy(comm);
      finding.numbers[0] += result == (aborts ? sparsecollAborted : sparsecollPeerFailed) ? 1 : 0;
      finding.stage = trial + 1;
    }
  });
  REQUIRE(processes.awaitEnd(120000));
  for (int rank = 0; rank < kRanks; ++rank) {
    CAPTURE(rank, processes[rank].text);
    CHECK(processes[rank].stage == kTrials);
    CHECK(processes[rank].numbers[0] == kTrials);
    std::printf("rank %d: %lld calls of CommSplit\n", rank, static_cast<long long>(processes[rank].numbers[1]));
  }
}

// The survivors of the first death have aborted by then, so that the second one is told by nothing but connections.
TEST_CASE("a second rank that dies at a random moment while the others shrink is left out as well") {
  const Way way = GENERATE(from_range(engines()));
  constexpr int kRanks = 4, kFirst = 3, kSecond = 2;
  const auto count = static_cast<int>(wanted("SPARSECOLL_TEST_SHRINKS", 6));
  const auto seed = wanted("SPARSECOLL_TEST_SEED", static_cast<uint64_t>(time(nullptr)));
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  Random random(seed);
  for (int trial = 0; trial < count; ++trial) {
    const auto afterUs = static_cast<useconds_t>(random.below(8000));
    CAPTURE(way.name(), trial, afterUs);
    Processes processes(kRanks, way);
    processes.start([&](int rank, Finding& finding) {
      sparsecollComm_t comm = processes.join(rank);
      if (finding.made != sparsecollSuccess) return;
      const sparsecollParams_t params = preset("topka", 1);
      std::vector<float> values(100);
      const auto step = [&](sparsecollComm_t over) {
        return sparsecollAllReduce(values.data(), values.data(), values.size(), sparsecollFloat32, &params, over,
                                   nullptr);
      };
      finding.stage = 1;
      while (step(comm) == sparsecollSuccess) continue;
      std::thread second([&] {
        if (rank != kSecond) return;
        usleep(afterUs);
        kill(getpid(), SIGKILL);
      });
      sparsecollConfig_t limits = SPARSECOLL_INIT(sparsecollConfig_t);
      limits.initTimeoutMs = 20000;
      for (int left = kRanks - 1; left > kRanks - 2;) {
        sparsecollComm_t fewer = nullptr;
        finding.result = sparsecollCommShrink(comm, nullptr, 0, &fewer, &limits);
        std::snprintf(finding.text, sizeof finding.text, "%s", sparsecollGetLastError());
        if (finding.result != sparsecollSuccess) break;
        (void)sparsecollCommDestroy(std::exchange(comm, fewer));
        left = placeIn(comm).ranks;
        while (left > kRanks - 2 && step(comm) == sparsecollSuccess) continue;
      }
      second.join();
      std::ranges::fill(values, static_cast<float>(1 << rank));
      finding.numbers[0] = finding.result == sparsecollSuccess && step(comm) == sparsecollSuccess && values[50] == 3;
      (void)sparsecollCommDestroy(comm);
    });
    REQUIRE(processes.awaitStage(kFirst, 1));
    kill(processes.process(kFirst), SIGKILL);
    REQUIRE(processes.awaitEnd(60000, {kFirst, kSecond}));
    for (int rank = 0; rank < kSecond; ++rank) {
      CAPTURE(rank, processes[rank].result, processes[rank].text);
      CHECK(processes[rank].numbers[0] == 1);
    }
  }
}

TEST_CASE("an abort at a random moment while ranks shrink keeps none of them from going on") {
  const Way way = GENERATE(from_range(engines()));
  CAPTURE(way.name());
  constexpr int kRanks = 3;
  const auto count = static_cast<int>(wanted("SPARSECOLL_TEST_ABORTS", 12));
  const auto seed = wanted("SPARSECOLL_TEST_SEED", static_cast<uint64_t>(time(nullptr)));
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  Processes processes(kRanks, way);
  processes.start([&](int rank, Finding& finding) {
    Random random(seed);
    for (int trial = 0; trial < count; ++trial) {
      const bool aborts = rank == static_cast<int>(random.below(kRanks));
      const auto afterUs = static_cast<useconds_t>(random.below(10000));
      sparsecollComm_t comm = processes.join(rank);
      if (finding.made != sparsecollSuccess) return;
      std::thread other([&] {
        if (!aborts) return;
        usleep(afterUs);
        (void)sparsecollCommAbort(comm);
      });
      sparsecollConfig_t limits = SPARSECOLL_INIT(sparsecollConfig_t);
      limits.initTimeoutMs = 60000;
      sparsecollComm_t same = nullptr;
      sparsecollResult_t result = sparsecollCommShrink(comm, nullptr, 0, &same, &limits);
      if (result != sparsecollSuccess)
        std::snprintf(finding.text, sizeof finding.text, "trial %d: %s", trial, sparsecollGetLastError());
      std::vector<float> values(100, static_cast<float>(1 << rank));
      sparsecollParams_t params = preset("topka", 1);
      if (result == sparsecollSuccess)
        result =
            sparsecollAllReduce(values.data(), values.data(), values.size(), sparsecollFloat32, &params, same, nullptr);
      other.join();
      finding.numbers[0] += result == sparsecollSuccess && placeIn(same).ranks == kRanks && values[50] == 7 ? 1 : 0;
      (void)sparsecollCommDestroy(same);
      (void)sparsecollCommDestroy(comm);
      finding.stage = trial + 1;
    }
  });
  REQUIRE(processes.awaitEnd(60000 + 2000 * count));
  for (int rank = 0; rank < kRanks; ++rank) {
    CAPTURE(rank, processes[rank].text);
    CHECK(processes[rank].stage == count);
    CHECK(processes[rank].numbers[0] == count);
  }
}

TEST_CASE("a communicator is made by an all-gather of the caller's, and without an id") {
  const Way way = GENERATE(from_range(engines()));
  CAPTURE(way.name());
  SharedBoard board;
  Processes processes(3, way);
  processes.start([&](int rank, Finding& finding) {
    auto config = SPARSECOLL_INIT(sparsecollConfig_t);
    config.transport = way.engine;
    sparsecollComm_t comm = nullptr;
    finding.made = board.meet(&comm, rank, 3, config);
    if (finding.made != sparsecollSuccess) {
      std::snprintf(finding.text, sizeof finding.text, "%s", sparsecollGetLastError());
      return;
    }
    std::vector<float> values(100, static_cast<float>(1 << rank));
    sparsecollParams_t params = preset("topka", 1);
    finding.result =
        sparsecollAllReduce(values.data(), values.data(), values.size(), sparsecollFloat32, &params, comm, nullptr);
    finding.numbers[0] = static_cast<int64_t>(values[0]);
    (void)sparsecollCommDestroy(comm);
  });
  CHECK(processes.awaitEnd(60000));
  for (int rank = 0; rank < 3; ++rank) {
    CAPTURE(rank, processes[rank].text);
    CHECK(processes[rank].made == sparsecollSuccess);
    CHECK(processes[rank].result == sparsecollSuccess);
    CHECK(processes[rank].numbers[0] == 7);
  }
}

}  // namespace sparsecoll::test
