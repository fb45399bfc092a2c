// Communicators and reducers come and go, share threads, and are looked at while they work.
#include "tests/support/catch.h"

#include <algorithm>
#include <atomic>
#include <iostream>
#include <mutex>
#include <set>

#include "tests/support/group.h"

using namespace sparsecoll::test;

namespace {

struct MethodRow {
  const char* preset;
  bool faithful;
};
constexpr MethodRow kMethods[] = {
    {"dense", false}, {"topka", false}, {"threshold", false}, {"micro", false}, {"micro", true}};

sparsecollParams_t paramsOf(const MethodRow& row, double density = 0.05) {
  sparsecollParams_t params = preset(row.preset, std::string(row.preset) == "dense" ? 0 : density);
  params.faithful = row.faithful ? 1 : 0;
  return params;
}

sparsecollStats_t commStats(sparsecollComm_t comm) {
  sparsecollStats_t stats = SPARSECOLL_INIT(sparsecollStats_t);
  if (sparsecollGetStats(comm, &stats) != sparsecollSuccess) stats = {};
  return stats;
}

}  // namespace

TEST_CASE("many communicators and reducers, one after the other") {
  for (int round = 0; round < 150; ++round) {
    const MethodRow& method = kMethods[round % 5];
    const int ranks = 1 + round % 6;
    Group group(ranks, 100 + static_cast<uint64_t>(round), kAllTypes[round % 4], paramsOf(method));
    REQUIRE(group.created() == all(ranks, sparsecollSuccess));
    group.fillRandom(static_cast<uint64_t>(round));
    REQUIRE(group.step() == all(ranks, sparsecollSuccess));
    CHECK(group.outsEqual());
  }
}

TEST_CASE("many communicators at the same time") {
  std::vector<std::unique_ptr<Group>> groups;
  for (int g = 0; g < 40; ++g)
    groups.push_back(std::make_unique<Group>(3, 200, sparsecollFloat32, paramsOf(kMethods[g % 5])));
  for (int step = 0; step < 3; ++step)
    for (auto& group : groups) {
      group->fillRandom(static_cast<uint64_t>(step));
      REQUIRE(group->step() == all(3, sparsecollSuccess));
      CHECK(group->outsEqual());
    }
  std::set<const void*> handles;
  for (auto& group : groups)
    for (int rank = 0; rank < 3; ++rank) handles.insert(group->ranks()[rank]);
  CHECK(handles.size() == 120);
}

TEST_CASE("the most ranks there may be") {
  {
    const Ranks ranks(1024);
    REQUIRE(ranks.result() == sparsecollSuccess);
    int rank = -1;
    int count = -1;
    int device = 0;
    CHECK(sparsecollCommGetInfo(ranks[1023], &rank, &count, &device) == sparsecollSuccess);
    CHECK(rank == 1023);
    CHECK(count == 1024);
    CHECK(device == SPARSECOLL_HOST);
  }
  Group group(64, 300, sparsecollFloat32, paramsOf(kMethods[3]));
  REQUIRE(group.created() == all(64, sparsecollSuccess));
  group.fillIntegers(1);
  CHECK(group.step() == all(64, sparsecollSuccess));
  CHECK(group.outsEqual());
}

TEST_CASE("two communicators used by the same threads") {
  const Ranks first(3);
  const Ranks second(3);
  const sparsecollParams_t params = paramsOf(kMethods[1]);
  const Reducers a(first, 500, sparsecollFloat32, params);
  const Reducers b(second, 700, sparsecollFloat64, params);
  std::vector<std::vector<float>> outs(3, std::vector<float>(500));
  std::vector<std::vector<double>> others(3, std::vector<double>(700));
  CHECK(onEach(first, [&](int rank, sparsecollComm_t) {
          const auto r = static_cast<size_t>(rank);
          std::vector<float> small(500, 1.0f + static_cast<float>(rank));
          std::vector<double> large(700, 2.0 + rank);
          for (int step = 0; step < 20; ++step) {
            const sparsecollResult_t one = sparsecollReducerRun(a[rank], small.data(), outs[r].data(), nullptr);
            if (one != sparsecollSuccess) return one;
            const sparsecollResult_t two = sparsecollReducerRun(b[rank], large.data(), others[r].data(), nullptr);
            if (two != sparsecollSuccess) return two;
          }
          return sparsecollSuccess;
        }) == all(3, sparsecollSuccess));
  CHECK((outs[0] == outs[1] && outs[1] == outs[2]));
  CHECK((others[0] == others[1] && others[1] == others[2]));
}

TEST_CASE("several reducers in turn, with other calls in between, do not know of each other") {
  constexpr int kRanks = 3;
  constexpr uint64_t kLength = 600;
  const Ranks ranks(kRanks);
  std::vector<std::unique_ptr<Reducers>> together;
  for (const MethodRow& method : kMethods)
    together.push_back(std::make_unique<Reducers>(ranks, kLength, sparsecollFloat32, paramsOf(method)));
  std::vector<std::vector<Elements>> outs(5, std::vector<Elements>(kRanks, Elements(sparsecollFloat32, kLength)));
  std::vector<std::vector<Elements>> gradients(6);
  for (size_t step = 0; step < 6; ++step)
    for (size_t r = 0; r < kRanks; ++r) {
      gradients[step].emplace_back(sparsecollFloat32, kLength);
      Random random(step * 10 + r);
      for (size_t i = 0; i < kLength; ++i) gradients[step][r].set(i, random.bell());
    }
  const Results results = onEach(ranks, [&](int rank, sparsecollComm_t comm) {
    const auto r = static_cast<size_t>(rank);
    const sparsecollParams_t params = preset("topka", 0.1);
    for (size_t step = 0; step < 6; ++step)
      for (size_t m = 0; m < 5; ++m) {
        sparsecollResult_t result =
            sparsecollReducerRun((*together[m])[rank], gradients[step][r].data(), outs[m][r].data(), nullptr);
        if (result != sparsecollSuccess) return result;
        SparseVector in(sparsecollFloat32, 50, 2);
        SparseVector out(sparsecollFloat32, 50, 8);
        in.add(static_cast<uint64_t>(rank), 1);
        result = m % 2 == 0 ? sparsecollAllReduceVector(in.view(), out.view(), nullptr, comm, nullptr)
                            : sparsecollAllGatherVector(in.view(), out.view(), comm, nullptr);
        if (result != sparsecollSuccess || out.count() != kRanks) return sparsecollInternalError;
        Elements once(sparsecollFloat32, kLength);
        result = sparsecollAllReduce(gradients[step][r].data(), once.data(), kLength, sparsecollFloat32, &params, comm,
                                     nullptr);
        if (result != sparsecollSuccess) return result;
      }
    return sparsecollSuccess;
  });
  REQUIRE(results == all(kRanks, sparsecollSuccess));
  for (size_t m = 0; m < 5; ++m) {
    CAPTURE(kMethods[m].preset, kMethods[m].faithful);
    Group alone(kRanks, kLength, sparsecollFloat32, paramsOf(kMethods[m]));
    for (size_t step = 0; step < 6; ++step) {
      alone.gradients = gradients[step];
      REQUIRE(alone.step() == all(kRanks, sparsecollSuccess));
    }
    CHECK((outs[m] == alone.outs));
    for (int rank = 0; rank < kRanks; ++rank) CHECK((residualOf((*together[m])[rank]) == alone.residual(rank)));
  }
  const sparsecollStats_t stats = commStats(ranks[0]);
  CHECK(stats.opsDense == 6);
  CHECK(stats.opsStarted == stats.opsCompleted);
  CHECK(stats.opsStarted == 3 * 6 * 5);
}

TEST_CASE("a communicator's counters are those of its reducers together") {
  const Ranks ranks(2);
  const Reducers a(ranks, 500, sparsecollFloat32, paramsOf(kMethods[1]));
  const Reducers b(ranks, 900, sparsecollFloat32, paramsOf(kMethods[3]));
  std::vector<float> zeros(900, 0.5f);
  REQUIRE(onEach(ranks, [&](int rank, sparsecollComm_t) {
            std::vector<float> out(900);
            for (int step = 0; step < 3; ++step) {
              const sparsecollResult_t one = sparsecollReducerRun(a[rank], zeros.data(), out.data(), nullptr);
              if (one != sparsecollSuccess) return one;
            }
            return sparsecollReducerRun(b[rank], zeros.data(), out.data(), nullptr);
          }) == all(2, sparsecollSuccess));
  const sparsecollStats_t first = statsOf(a[0]);
  const sparsecollStats_t second = statsOf(b[0]);
  const sparsecollStats_t both = commStats(ranks[0]);
  CHECK(first.opsCompleted == 3);
  CHECK(both.opsCompleted == 4);
  CHECK(both.bytesSent == first.bytesSent + second.bytesSent);
  CHECK(both.bytesReceived == first.bytesReceived + second.bytesReceived);
  CHECK(both.bytesDense == first.bytesDense + second.bytesDense);
  CHECK(both.bytesDense == 3 * 500 * 4 + 900 * 4);
  CHECK(both.lastLength == 900);
  CHECK(both.lastSequence == second.lastSequence);
  CHECK(both.workspaceBytes >= first.workspaceBytes + second.workspaceBytes);
  REQUIRE(sparsecollResetStats(ranks[0]) == sparsecollSuccess);
  CHECK(commStats(ranks[0]).opsStarted == 0);
  CHECK(commStats(ranks[0]).bytesSent == 0);
  CHECK(statsOf(a[0]).opsCompleted == 3);
  CHECK(commStats(ranks[1]).opsCompleted == 4);
}

TEST_CASE("statistics and state are read from other threads while steps run") {
  for (const MethodRow& method : kMethods) {
    CAPTURE(method.preset, method.faithful);
    Group group(3, 3000, sparsecollFloat32, paramsOf(method));
    group.fillRandom(1);
    std::atomic<bool> done{false};
    std::atomic<uint64_t> bad{0};
    std::thread reader([&] {
      uint64_t before = 0;
      while (!done)
        for (int rank = 0; rank < 3; ++rank) {
          const sparsecollStats_t stats = commStats(group.ranks()[rank]);
          const sparsecollStats_t own = group.stats(rank);
          sparsecollResult_t state = sparsecollInternalError;
          if (sparsecollCommGetAsyncError(group.ranks()[rank], &state) != sparsecollSuccess ||
              state != sparsecollSuccess)
            ++bad;
          if (failureOf(group.ranks()[rank]).result != sparsecollSuccess) ++bad;
          if (stats.opsCompleted > stats.opsStarted || own.opsCompleted > own.opsStarted) ++bad;
          if (rank == 0 && own.opsStarted < before) ++bad;
          if (rank == 0) before = own.opsStarted;
          if (sparsecollGetLastError() == nullptr) ++bad;
        }
    });
    bool ok = true;
    for (int step = 0; step < 60; ++step) ok = ok && group.step() == all(3, sparsecollSuccess);
    done = true;
    reader.join();
    CHECK(ok);
    CHECK(bad == 0);
  }
}

namespace {

struct Log {
  std::mutex mutex;
  std::vector<std::string> lines;
  std::set<std::string> subsystems;
  std::set<int> levels;
  static void write(void* user, sparsecollLogLevel_t level, const char* subsystem, const char* text) {
    auto& log = *static_cast<Log*>(user);
    const std::lock_guard lock(log.mutex);
    log.lines.emplace_back(text);
    log.subsystems.insert(subsystem);
    log.levels.insert(level);
  }
  size_t count(const std::string& part) const {
    return static_cast<size_t>(std::count_if(
        lines.begin(), lines.end(), [&](const std::string& line) { return line.find(part) != std::string::npos; }));
  }
};

}  // namespace

TEST_CASE("the log function receives lines that name the communicator") {
  Log log;
  {
    char name[] = "bucket seven";
    sparsecollConfig_t config = SPARSECOLL_INIT(sparsecollConfig_t);
    config.name = name;
    config.logFn = &Log::write;
    config.logUser = &log;
    Group group(2, 100, sparsecollFloat32, paramsOf(kMethods[1]), nullptr, &config);
    std::memset(name, 'x', sizeof name - 1);  // it was copied
    group.fillRandom(1);
    REQUIRE(group.step() == all(2, sparsecollSuccess));
    REQUIRE(sparsecollReducerSetDensity(group.reducer(1), 0.01) == sparsecollSuccess);
    CHECK(group.step() == all(2, sparsecollMismatch));
  }
  CHECK(log.lines.size() >= 6);
  CHECK(log.count("bucket seven") == log.lines.size());
  CHECK(log.count("rank 0/2") >= 3);
  CHECK(log.count("rank 1/2") >= 3);
  CHECK(log.count("different") >= 2);        // the mismatch
  CHECK(log.count("bytes of memory") == 1);  // the plan, told by rank 0 for the first reducer
  CHECK(log.count("\n") == 0);
  CHECK(log.subsystems.count("") == 0);
  CHECK(*log.levels.begin() >= sparsecollLogError);
  CHECK(*log.levels.rbegin() <= sparsecollLogTrace);
}

TEST_CASE("a name of any length is cut, not overrun") {
  const std::string name(100000, 'n');
  sparsecollConfig_t config = SPARSECOLL_INIT(sparsecollConfig_t);
  config.name = name.c_str();
  const Ranks ranks(2, &config);
  REQUIRE(ranks.result() == sparsecollSuccess);
  CHECK(sparsecollCommAbort(ranks[0]) == sparsecollSuccess);
  const sparsecollFailure_t failure = failureOf(ranks[0]);
  CHECK(std::string(failure.text).size() < sizeof failure.text);
}

TEST_CASE("reducers may outlive their communicator as handles") {
  Ranks ranks(2);
  Reducers reducers(ranks, 100, sparsecollFloat32, paramsOf(kMethods[3]));
  for (int rank = 0; rank < 2; ++rank) REQUIRE(sparsecollCommDestroy(ranks.release(rank)) == sparsecollSuccess);
  std::vector<float> vector(100);
  for (int rank = 0; rank < 2; ++rank) {
    CHECK(sparsecollReducerRun(reducers[rank], vector.data(), vector.data(), nullptr) == sparsecollInvalidUsage);
    CHECK(infoOf(reducers[rank]).n == 100);
  }
}

TEST_CASE("a call that did not start counts nothing of the step before it") {
  for (const MethodRow& method : kMethods) {
    if (method.preset == std::string("dense")) continue;
    CAPTURE(method.preset, method.faithful);
    Group group(2, 1000, sparsecollFloat32, paramsOf(method));
    group.fillRandom(1, 1000);
    group.gradients[0].set(3, std::nan(""));
    REQUIRE(group.step() == all(2, sparsecollSuccess));
    const sparsecollStats_t before = group.stats(0);
    REQUIRE(before.opsNonFinite == 1);
    REQUIRE(sparsecollCommAbort(group.ranks()[0]) == sparsecollSuccess);
    CHECK(sparsecollReducerRun(group.reducer(0), group.gradients[0].data(), group.outs[0].data(), nullptr) ==
          sparsecollAborted);
    const sparsecollStats_t after = group.stats(0);
    CHECK(after.opsCompleted == before.opsCompleted);
    CHECK(after.opsNonFinite == before.opsNonFinite);
    CHECK(after.opsOverflow == before.opsOverflow);
    CHECK(after.opsFallback == before.opsFallback);
    CHECK(after.bytesSent == before.bytesSent);
  }
}
