// Ranks that are killed, stopped, aborted or forked: the survivors return, blame the right one, and leave nothing
// behind. SPARSECOLL_TEST_TRIALS and SPARSECOLL_TEST_ABORTS set how often (make stress); the seed is printed.
#include <dirent.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <string>
#include <thread>

#include "tests/processes/processes.h"
#include "tests/support/catch.h"
#include "tests/support/wanted.h"

namespace {

// A forked process that runs the handlers of exit holds what threads held that it does not have: no leak of its own.
bool endsForked = false;

}  // namespace

// LeakSanitizer asks it before it looks.
extern "C" __attribute__((visibility("default"))) int __lsan_is_turned_off() { return endsForked ? 1 : 0; }

namespace sparsecoll::test {
namespace {

constexpr uint64_t kLength = 200000;

std::set<std::string> namesIn(const std::string& folder) {
  std::set<std::string> names;
  DIR* const all = opendir(folder.c_str());
  while (const dirent* const one = all != nullptr ? readdir(all) : nullptr) names.insert(one->d_name);
  if (all != nullptr) closedir(all);
  return names;
}

std::set<std::string> sharedMemory() { return namesIn("/dev/shm"); }

// Whether a process that lives has that shared memory: one of another test that runs now.
bool isInUse(const std::string& name) {
  for (const std::string& process : namesIn("/proc")) {
    std::ifstream maps("/proc/" + process + "/maps");
    for (std::string line; std::getline(maps, line);)
      if (line.find("/dev/shm/" + name) != std::string::npos) return true;
  }
  return false;
}

// Shared memory of UCX that is new and nobody's. What another test has made and not mapped yet is in use a little
// later.
std::set<std::string> leftSince(const std::set<std::string>& before) {
  std::set<std::string> left;
  for (int look = 0; look < 3; ++look) {
    left.clear();
    for (const std::string& name : sharedMemory())
      if (before.count(name) == 0 && name.find("ucx") != std::string::npos && !isInUse(name)) left.insert(name);
    if (left.empty()) break;
    usleep(300000);
  }
  return left;
}

size_t entriesOf(const char* folder) {
  size_t count = 0;
  DIR* const all = opendir(folder);
  while (readdir(all) != nullptr) ++count;
  closedir(all);
  return count;
}

// What a communicator has left: a thread that was joined counts until the kernel has taken it away.
int64_t entriesOnce(const char* folder, int64_t most) {
  for (const double end = nowMs() + 30000; nowMs() < end; usleep(1000))
    if (static_cast<int64_t>(entriesOf(folder)) <= most) break;
  return static_cast<int64_t>(entriesOf(folder));
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

TEST_CASE("a rank that is killed at any moment ends the others' waits, and is the one they blame") {
  const Way way = GENERATE(from_range(ways()));
  const auto seed = wanted("SPARSECOLL_TEST_SEED", static_cast<uint64_t>(time(nullptr)));
  const auto count = static_cast<int>(wanted("SPARSECOLL_TEST_TRIALS", 6));
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  Random random(seed);
  const std::set<std::string> before = sharedMemory();
  std::vector<double> latencies;
  int endedByUcx = 0;
  for (int trial = 0; trial < count; ++trial) {
    const int ranks = 3 + static_cast<int>(random.below(2));
    const int victim = static_cast<int>(random.below(static_cast<uint64_t>(ranks)));
    const uint64_t afterUs = random.below(60000);
    const char* const method = trial % 3 == 0 ? "dense" : trial % 3 == 1 ? "topka" : "spardl";
    CAPTURE(way.name(), trial, ranks, victim, afterUs, method);
    Processes processes(ranks, way);
    processes.start([&](int rank, Finding& finding) {
      setenv("SPARSECOLL_SHARED_MEMORY", trial % 2 == 0 ? "1" : "0", 1);
      sparsecollComm_t comm = processes.join(rank);
      if (finding.made != sparsecollSuccess) return;
      (void)stepUntilFailure(finding, comm, stepsOf(method), kLength);
      (void)sparsecollCommDestroy(comm);
      finding.stage = 2;
    });
    REQUIRE(processes.awaitStage(victim, 1));
    usleep(static_cast<useconds_t>(afterUs));
    const double killed = nowMs();
    kill(processes.process(victim), SIGKILL);
    const bool allEnded = processes.awaitEnd(60000, {victim});
    REQUIRE(!processes.anyHangs());
    // UCX 1.13 has assertions about its TCP connections that a dying peer makes untrue now and then
    // (docs/reliability.md).
    std::set<int> dead = {victim};
    for (int rank = 0; rank < ranks; ++rank)
      if (rank != victim && processes.signalOf(rank) == SIGABRT && way.ucxTransports[0] != '\0') dead.insert(rank);
    endedByUcx += static_cast<int>(dead.size()) - 1;
    REQUIRE((allEnded || dead.size() > 1));
    double worst = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      if (dead.count(rank) != 0) continue;
      CAPTURE(rank, processes[rank].text);
      CHECK(processes[rank].result == sparsecollPeerFailed);
      CHECK(dead.count(processes[rank].peer) == 1);
      worst = std::max(worst, processes[rank].atMs - killed);
      latencies.push_back(processes[rank].atMs - killed);
    }
    std::printf("trial %d: %d ranks, %s, %s, rank %d killed after %llu us, the last survivor back after %.1f ms\n",
                trial, ranks, method, way.name().c_str(), victim, static_cast<unsigned long long>(afterUs), worst);
  }
  if (!latencies.empty())
    std::printf("%s: %d kills, %zu survivors: back after %.1f ms (median), %.1f ms (longest); %d ended by UCX\n",
                way.name().c_str(), count, latencies.size(), median(latencies),
                *std::max_element(latencies.begin(), latencies.end()), endedByUcx);
  CHECK(endedByUcx <= 1 + count / 50);
  const std::set<std::string> left = leftSince(before);
  CAPTURE(left.empty() ? "" : *left.begin());
  CHECK(left.empty());
}

TEST_CASE("a rank that is lost ends waits for others, too") {
  const Way way = GENERATE(from_range(engines()));
  CAPTURE(way.name());
  Processes processes(4, way);
  processes.start([&](int rank, Finding& finding) {
    sparsecollComm_t comm = processes.join(rank);
    if (finding.made != sparsecollSuccess) return;
    sparsecollParams_t params = preset("gtopk", 0.01);
    sparsecollReducer_t reducer = nullptr;
    REQUIRE(sparsecollReducerCreate(&reducer, 1000, sparsecollFloat32, &params, nullptr, comm) == sparsecollSuccess);
    std::vector<float> gradient(1000, 1.0f);
    REQUIRE(sparsecollReducerRun(reducer, gradient.data(), gradient.data(), nullptr) == sparsecollSuccess);
    finding.stage = 1;
    // On the tree rank 0 meets rank 1 first, which comes to the step only when rank 0 has given it up.
    if (rank == 3 || rank == 1) (void)processes.awaitStage(0, 2);
    note(finding, comm, sparsecollReducerRun(reducer, gradient.data(), gradient.data(), nullptr));
    finding.stage = 2;
    (void)sparsecollReducerDestroy(reducer);
    (void)sparsecollCommDestroy(comm);
  });
  REQUIRE(processes.awaitStage(3, 1));
  kill(processes.process(3), SIGKILL);
  REQUIRE(processes.awaitEnd(60000, {3}));
  for (const int rank : {0, 1, 2}) {
    CAPTURE(rank, processes[rank].text);
    CHECK(processes[rank].result == sparsecollPeerFailed);
    CHECK(processes[rank].peer == 3);
  }
}

TEST_CASE("the end of a rank is known without a call of the others, and leaves their communicators alive") {
  const Way way = GENERATE(from_range(engines()));
  CAPTURE(way.name());
  Processes processes(3, way);
  processes.start([&](int rank, Finding& finding) {
    sparsecollComm_t comm = processes.join(rank);
    if (finding.made != sparsecollSuccess) return;
    sparsecollFailure_t failure = SPARSECOLL_INIT(sparsecollFailure_t);
    failure.result = sparsecollInternalError;
    finding.numbers[0] = sparsecollCommGetPeerFailure(comm, &failure) == sparsecollSuccess ? failure.result : -1;
    finding.stage = 1;
    for (const double end = nowMs() + 60000; failure.result == sparsecollSuccess && nowMs() < end; usleep(200))
      if (sparsecollCommGetPeerFailure(comm, &failure) != sparsecollSuccess) break;
    finding.peer = failure.peer;
    finding.result = failure.result;
    std::snprintf(finding.text, sizeof finding.text, "%s", failure.text);
    sparsecollResult_t state = sparsecollInternalError;
    finding.numbers[1] = sparsecollCommGetAsyncError(comm, &state) == sparsecollSuccess ? state : -1;
    finding.stage = 2;
    for (const int other : {0, 2}) (void)processes.awaitStage(other, 2);
    (void)sparsecollCommDestroy(comm);
  });
  for (const int rank : {0, 1, 2}) REQUIRE(processes.awaitStage(rank, 1));
  kill(processes.process(1), SIGKILL);
  REQUIRE(processes.awaitEnd(60000, {1}));
  for (const int rank : {0, 2}) {
    CAPTURE(rank, processes[rank].text);
    CHECK(processes[rank].numbers[0] == sparsecollSuccess);
    CHECK(processes[rank].result == sparsecollPeerFailed);
    CHECK(processes[rank].peer == 1);
    CHECK(processes[rank].numbers[1] == sparsecollSuccess);
  }
}

TEST_CASE("a rank that is killed is lost at once, though a child that it has forked lives on") {
  const Way way = GENERATE(from_range(engines()));
  CAPTURE(way.name());
  setenv("SPARSECOLL_SILENCE_MS", "86400000", 1);  // so that only its connections tell
  Processes processes(3, way);
  processes.start([&](int rank, Finding& finding) {
    sparsecollComm_t comm = processes.join(rank);
    if (finding.made != sparsecollSuccess) return;
    if (rank == 1) {
      const pid_t child = fork();
      if (child == 0) {
        alarm(300);  // should nobody end it
        for (;;) pause();
      }
      finding.numbers[0] = child;
    }
    (void)stepUntilFailure(finding, comm, stepsOf("topka"), kLength);
    (void)sparsecollCommDestroy(comm);
  });
  unsetenv("SPARSECOLL_SILENCE_MS");
  REQUIRE(processes.awaitStage(1, 1));
  kill(processes.process(1), SIGKILL);
  const bool ended = processes.awaitEnd(60000, {1});
  const auto child = static_cast<pid_t>(processes[1].numbers[0]);
  REQUIRE(child > 0);
  CHECK(kill(child, 0) == 0);
  kill(child, SIGKILL);
  REQUIRE(ended);
  for (const int rank : {0, 2}) {
    CAPTURE(rank, processes[rank].text);
    CHECK(processes[rank].result == sparsecollPeerFailed);
    CHECK(processes[rank].peer == 1);
  }
}

TEST_CASE("a rank that is stopped shows as a Timeout that names it") {
  const Way way = GENERATE(from_range(engines()));
  CAPTURE(way.name());
  // On the tree rank 2 waits for rank 0, which waits for the one that is stopped.
  const auto [method, ranks] = GENERATE(table<const char*, int>({{"topka", 3}, {"gtopk", 4}}));
  Processes processes(ranks, way);
  processes.start([&, method = method](int rank, Finding& finding) {
    sparsecollConfig_t config = SPARSECOLL_INIT(sparsecollConfig_t);
    config.transport = way.engine;
    config.opTimeoutMs = 2000;
    config.abortTimeoutMs = 200;
    sparsecollComm_t comm = processes.join(rank, &config);
    if (finding.made != sparsecollSuccess) return;
    (void)stepUntilFailure(finding, comm, stepsOf(method), 20000);
    (void)sparsecollCommDestroy(comm);
  });
  REQUIRE(processes.awaitStage(1, 1));
  const double stopped = nowMs();
  kill(processes.process(1), SIGSTOP);
  REQUIRE(processes.awaitEnd(60000, {1}));
  CHECK(endedBy(processes, ranks, 1, sparsecollTimeout) >= 1);
  for (int rank = 0; rank < ranks; ++rank)
    if (rank != 1)
      std::printf("rank %d back %.0f ms after the stop: %s\n", rank, processes[rank].atMs - stopped,
                  processes[rank].text);
}

TEST_CASE("abort from another thread ends this rank's wait and its peers'") {
  const Way way = GENERATE(from_range(engines()));
  CAPTURE(way.name());
  const auto count = static_cast<int>(wanted("SPARSECOLL_TEST_ABORTS", 20));
  const auto seed = wanted("SPARSECOLL_TEST_SEED", static_cast<uint64_t>(time(nullptr)));
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  Processes processes(3, way);
  processes.start([&](int rank, Finding& finding) {
    Random random(seed);
    for (int trial = 0; trial < count; ++trial) {
      const int aborter = static_cast<int>(random.below(3));
      const auto afterUs = static_cast<useconds_t>(random.below(20000));
      sparsecollComm_t comm = processes.join(rank);
      if (finding.made != sparsecollSuccess) return;
      double aborted = 0;
      std::thread other([&] {
        if (rank != aborter) return;
        usleep(afterUs);
        aborted = nowMs();
        (void)sparsecollCommAbort(comm);
      });
      const sparsecollResult_t result =
          stepUntilFailure(finding, comm, stepsOf(trial % 2 == 0 ? "topka" : "dense"), 20000);
      other.join();
      (void)sparsecollCommDestroy(comm);
      const bool good =
          rank == aborter ? result == sparsecollAborted : result == sparsecollPeerFailed && finding.peer == aborter;
      finding.numbers[good ? 0 : 1] += 1;
      if (rank == aborter)
        finding.numbers[2] = std::max(finding.numbers[2], static_cast<int64_t>(finding.atMs - aborted));
      // Nothing of a communicator stays: descriptors and threads are those that the first one left of UCX.
      if (trial == 0) {
        finding.numbers[3] = static_cast<int64_t>(entriesOf("/proc/self/fd"));
        finding.numbers[4] = static_cast<int64_t>(entriesOf("/proc/self/task"));
      }
      finding.numbers[5] = entriesOnce("/proc/self/fd", finding.numbers[3]);
      finding.numbers[6] = entriesOnce("/proc/self/task", finding.numbers[4]);
    }
    finding.stage = 3;
  });
  REQUIRE(processes.awaitEnd(60000 + 2000 * count));
  for (int rank = 0; rank < 3; ++rank) {
    CAPTURE(rank, processes[rank].text, processes[rank].result, processes[rank].peer);
    CHECK(processes[rank].numbers[0] == count);
    CHECK(processes[rank].numbers[1] == 0);
    std::printf("rank %d: %d aborts, longest way back %lld ms, descriptors %lld then %lld, threads %lld then %lld\n",
                rank, count, static_cast<long long>(processes[rank].numbers[2]),
                static_cast<long long>(processes[rank].numbers[3]), static_cast<long long>(processes[rank].numbers[5]),
                static_cast<long long>(processes[rank].numbers[4]), static_cast<long long>(processes[rank].numbers[6]));
    CHECK(processes[rank].numbers[5] <= processes[rank].numbers[3]);
    CHECK(processes[rank].numbers[6] <= processes[rank].numbers[4]);
  }
}

TEST_CASE("a forked process cannot use its parent's communicator, and does not disturb it") {
  const Way way = GENERATE(from_range(engines()));
  CAPTURE(way.name());
  Processes processes(2, way);
  processes.start([&](int rank, Finding& finding) {
    sparsecollComm_t comm = processes.join(rank);
    if (finding.made != sparsecollSuccess) return;
    std::vector<float> values(1000, 1.0f);
    sparsecollParams_t params = preset("topka", 0.01);
    const auto sum = [&] {
      return sparsecollAllReduce(values.data(), values.data(), values.size(), sparsecollFloat32, &params, comm,
                                 nullptr);
    };
    finding.numbers[0] = sum();
    const pid_t child = fork();
    if (child == 0) {
      const sparsecollResult_t used = sum();
      const sparsecollResult_t written = sparsecollCommDumpFlightRecorder(comm, "/dev/null/none");
      int own = 0;
      sparsecollResult_t state = sparsecollSuccess;
      sparsecollComm_t fewer = nullptr;
      const sparsecollResult_t others[] = {
          sparsecollCommAbort(comm), sparsecollCommGetInfo(comm, &own, nullptr, nullptr),
          sparsecollCommGetAsyncError(comm, &state), sparsecollCommWait(comm, nullptr, 0),
          sparsecollCommShrink(comm, nullptr, 0, &fewer, nullptr)};
      for (const sparsecollResult_t other : others)
        if (other != sparsecollInvalidUsage) _exit(2);
      const sparsecollResult_t ended = sparsecollCommDestroy(comm);
      _exit(used == sparsecollInvalidUsage && written == used && ended == sparsecollSuccess ? 0 : 1);
    }
    int how = 1;
    waitpid(child, &how, 0);
    finding.numbers[1] = how;
    finding.numbers[2] = sum();
    sparsecollReducer_t reducer = nullptr;
    finding.numbers[3] = sparsecollReducerCreate(&reducer, values.size(), sparsecollFloat32, &params, nullptr, comm);
    const pid_t second = fork();
    if (second == 0) {
      endsForked = true;
      std::exit(0);  // with handles that are its parent's
    }
    waitpid(second, &how, 0);
    finding.numbers[4] = how;
    const pid_t third = fork();
    if (third == 0) _exit(sparsecollReducerDestroy(reducer) == sparsecollSuccess ? 0 : 1);
    waitpid(third, &how, 0);
    finding.numbers[5] = how;
    finding.numbers[6] = sparsecollReducerRun(reducer, values.data(), values.data(), nullptr);
    (void)sparsecollReducerDestroy(reducer);
    finding.result = sparsecollCommDestroy(comm);
  });
  REQUIRE(processes.awaitEnd(60000));
  for (int rank = 0; rank < 2; ++rank) {
    CAPTURE(rank, processes[rank].text);
    CHECK(processes[rank].numbers[0] == sparsecollSuccess);
    for (int number = 1; number <= 6; ++number) CHECK(processes[rank].numbers[number] == 0);
    CHECK(processes[rank].result == sparsecollSuccess);
  }
}

}  // namespace sparsecoll::test
