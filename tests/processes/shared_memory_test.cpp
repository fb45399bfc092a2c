// Dense sums of processes that share memory: which of them do, the same bits whoever does, and what becomes of the
// others when one of them dies, stops, or writes what cannot be.
#include <algorithm>
#include <cstring>
#include <fstream>
#include <sstream>
#include <vector>

#include "tests/processes/processes.h"
#include "tests/support/catch.h"
#include "tests/support/node_groups.h"

namespace sparsecoll::test {
namespace {

constexpr int kMostRanks = 4;
constexpr size_t kDrawn = 10007;  // then the same again: a prime, so that no two places of a rank's memory are alike

struct Sum {
  uint64_t n;
  sparsecollDataType_t type;
  bool inPlace;
  uint32_t flags;
};

const Sum kSums[] = {{1, sparsecollFloat32, true, 0},
                     {63, sparsecollFloat64, false, SPARSECOLL_ACCUMULATE},
                     {5000, sparsecollFloat16, true, 0},
                     {5001, sparsecollBfloat16, false, SPARSECOLL_ACCUMULATE},
                     // The longest parts that travel in frames, and longer ones: of two ranks, and of four.
                     {4110, sparsecollFloat32, true, 0},
                     {4111, sparsecollFloat32, false, SPARSECOLL_ACCUMULATE},
                     {8192, sparsecollFloat32, false, 0},
                     {8193, sparsecollFloat32, true, 0},
                     {30000, sparsecollFloat32, true, 0},
                     {50000, sparsecollBfloat16, false, SPARSECOLL_ACCUMULATE},
                     {300001, sparsecollFloat32, false, 0},
                     {300001, sparsecollBfloat16, false, SPARSECOLL_ACCUMULATE},
                     {1500000, sparsecollFloat32, true, 0}};

// A hash of the results and of out, of a few steps of each.
void runSums(int rank, sparsecollComm_t comm, uint64_t (&hashes)[64]) {
  for (size_t s = 0; s < std::size(kSums); ++s) {
    const Sum& sum = kSums[s];
    sparsecollParams_t params = preset("dense", 0);
    params.flags |= sum.flags;
    sparsecollReducer_t reducer = nullptr;
    uint64_t hash =
        1 + static_cast<uint64_t>(sparsecollReducerCreate(&reducer, sum.n, sum.type, &params, nullptr, comm));
    Elements in(sum.type, sum.n), out(sum.type, sum.n, 2);
    const size_t each = in.byteCount() / sum.n;
    for (int step = 0; step < 3; ++step) {
      Random random(static_cast<uint64_t>(rank) * 100 + static_cast<uint64_t>(step));
      std::vector<double> drawn(std::min<size_t>(sum.n, kDrawn));
      for (double& value : drawn) value = random.bell();
      for (size_t i = 0; i < drawn.size(); ++i) in.set(i, drawn[i]);
      auto* const first = reinterpret_cast<std::byte*>(in.data());
      for (size_t at = kDrawn; at < sum.n; at += kDrawn)
        std::memcpy(first + at * each, first, std::min<size_t>(kDrawn, sum.n - at) * each);
      Elements& to = sum.inPlace ? in : out;
      const sparsecollResult_t ran = sparsecollReducerRun(reducer, in.data(), to.data(), nullptr);
      hash = hashBytes(&ran, sizeof ran, hashBytes(to.data(), to.byteCount(), hash));
    }
    hashes[s] = hash;
    (void)sparsecollReducerDestroy(reducer);
  }
}

// Who shares: of rank r bit r.
std::vector<std::vector<uint64_t>> sumsOf(int ranks, const Way& way, unsigned who) {
  Processes processes(ranks, way);
  processes.start([&](int rank, Finding& finding) {
    setenv("SPARSECOLL_SHARED_MEMORY", (who >> rank & 1) != 0 ? "1" : "0", 1);
    auto config = SPARSECOLL_INIT(sparsecollConfig_t);
    config.transport = way.engine;
    config.logUser = &finding;
    config.logFn = [](void* user, sparsecollLogLevel_t, const char*, const char* line) {
      if (std::strstr(line, "in memory that it shares") != nullptr) static_cast<Finding*>(user)->numbers[0] = 1;
    };
    sparsecollComm_t comm = processes.join(rank, &config);
    if (finding.made != sparsecollSuccess) return;
    runSums(rank, comm, finding.hashes);
    finding.result = sparsecollCommDestroy(comm);
  });
  REQUIRE(processes.awaitEnd(120000));
  std::vector<std::vector<uint64_t>> hashes;
  for (int rank = 0; rank < ranks; ++rank) {
    CAPTURE(rank, who, processes[rank].text);
    REQUIRE(processes[rank].made == sparsecollSuccess);
    CHECK(processes[rank].result == sparsecollSuccess);
    const bool shares = (who >> rank & 1) != 0 && (who & ~(1u << rank)) != 0;
    CHECK(processes[rank].numbers[0] == (shares ? 1 : 0));
    hashes.emplace_back(processes[rank].hashes, processes[rank].hashes + std::size(kSums));
  }
  return hashes;
}

// A sum of so many elements is to end well within two seconds, on two busy processors as well. TSan sees what lies in one
// process, and for that three processes are as good as four.
#ifdef __SANITIZE_THREAD__
constexpr uint64_t kLong = 500000;
constexpr int kMostOfSums = 3;
#else
constexpr uint64_t kLong = 4000000;
constexpr int kMostOfSums = kMostRanks;
#endif

struct Mapped {
  std::byte* begin;
  std::byte* end;
};

// Steps by turns of a sum of all ranks, of two nodes of half of them each, and of all again: whoever is ahead sums in
// the same memory among other ranks than just before. Of so few elements one rank sums all, and waits for nobody who
// has still to read the sum. Returns how many elements came out wrong.
int64_t stepByTurns(int rank, sparsecollComm_t comm, int ranks) {
  constexpr uint64_t kElements = 60;
  constexpr int kTurns = 3000;
  const sparsecollParams_t flat = preset("dense", 0), nodes = overNodes(preset("dense", 0));
  sparsecollReducer_t reducers[2] = {};
  int64_t wrong = sparsecollReducerCreate(&reducers[0], kElements, sparsecollFloat32, &flat, nullptr, comm) +
                  sparsecollReducerCreate(&reducers[1], kElements, sparsecollFloat32, &nodes, nullptr, comm);
  Elements in(sparsecollFloat32, kElements), out(sparsecollFloat32, kElements);
  for (int turn = 0; wrong == 0 && turn < kTurns; ++turn) {
    in.fill((rank + 1) * (turn % 50 + 1));
    wrong += sparsecollReducerRun(reducers[turn % 3 == 1 ? 1 : 0], in.data(), out.data(), nullptr);
    const double sum = ranks * (ranks + 1) / 2 * (turn % 50 + 1);
    for (size_t i = 0; i < kElements; ++i) wrong += out[i] != sum ? 1 : 0;
  }
  for (sparsecollReducer_t reducer : reducers) (void)sparsecollReducerDestroy(reducer);
  return wrong;
}

// All ranks end well, and count nothing wrong in numbers[0].
void checkNoneWrong(Processes& processes, int ranks) {
  REQUIRE(processes.awaitEnd(120000));
  for (int rank = 0; rank < ranks; ++rank) {
    CAPTURE(rank, processes[rank].text);
    REQUIRE(processes[rank].made == sparsecollSuccess);
    CHECK(processes[rank].numbers[0] == 0);
    CHECK(processes[rank].result == sparsecollSuccess);
  }
}

// What this process shares and may write.
std::vector<Mapped> ownSharedMemory() {
  std::vector<Mapped> found;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    uintptr_t begin = 0, end = 0;
    char access[5] = {};
    if (line.find("/memfd:sparsecoll") == std::string::npos) continue;
    if (std::sscanf(line.c_str(), "%lx-%lx %4s", &begin, &end, access) == 3 && access[1] == 'w')
      found.push_back({reinterpret_cast<std::byte*>(begin), reinterpret_cast<std::byte*>(end)});
  }
  return found;
}

}  // namespace

TEST_CASE("dense sums have the bits of threads, whichever ranks share memory") {
  const Way way = GENERATE(from_range(engines()));
  const int ranks = GENERATE(range(2, kMostOfSums + 1));
  CAPTURE(way.name(), ranks);
  const Ranks threads(ranks);
  std::vector<std::vector<uint64_t>> expected(static_cast<size_t>(ranks));
  threads.run([&](int rank, sparsecollComm_t comm) {
    uint64_t hashes[64] = {};
    runSums(rank, comm, hashes);
    expected[static_cast<size_t>(rank)].assign(hashes, hashes + std::size(kSums));
  });
  const unsigned all = (1u << ranks) - 1;
  for (const unsigned who : {all, 0u, all & ~1u}) CHECK(sumsOf(ranks, way, who) == expected);
}

TEST_CASE("sums of all ranks and of nodes follow one another in the same memory") {
  const Way way = GENERATE(from_range(engines()));
  CAPTURE(way.name());
  Processes processes(kMostRanks, way);
  processes.start([&](int rank, Finding& finding) {
    sparsecollConfig_t config = nodesOf(kMostRanks / 2);
    config.transport = way.engine;
    sparsecollComm_t comm = processes.join(rank, &config);
    if (finding.made != sparsecollSuccess) return;
    finding.stage = 1;
    finding.numbers[0] = stepByTurns(rank, comm, kMostRanks);
    finding.stage = 2;
    finding.result = sparsecollCommDestroy(comm);
  });
  // Now and then one of them is behind, wherever it is.
  REQUIRE(processes.awaitStage(kMostRanks - 1, 1));
  for (int stop = 0; stop < 500 && processes[0].stage < 2; ++stop) {
    kill(processes.process(stop % kMostRanks), SIGSTOP);
    usleep(300);
    kill(processes.process(stop % kMostRanks), SIGCONT);
    usleep(700);
  }
  checkNoneWrong(processes, kMostRanks);
}

// Ranks that meet in memory send nothing; the others learn from there, and from what they are told, that they wait in
// vain.
TEST_CASE("one rank in a sparse step and the others in a dense sum is a Mismatch on all, at once") {
  const Way way = GENERATE(from_range(engines()));
  const char* const name = GENERATE("topka", "gtopk");
  const int odd = GENERATE(0, 2);
  CAPTURE(way.name(), name, odd);
  Processes processes(3, way);
  processes.start([&](int rank, Finding& finding) {
    auto config = SPARSECOLL_INIT(sparsecollConfig_t);
    config.transport = way.engine;
    config.opTimeoutMs = 60000;
    sparsecollComm_t comm = processes.join(rank, &config);
    if (finding.made != sparsecollSuccess) return;
    const sparsecollParams_t of[] = {preset("dense", 0), preset(name, 0.1)};
    sparsecollReducer_t reducers[2] = {};
    Elements in(sparsecollFloat32, 1000), out(sparsecollFloat32, 1000);
    in.fill(1);
    for (int r = 0; r < 2; ++r)
      if (sparsecollReducerCreate(&reducers[r], 1000, sparsecollFloat32, &of[r], nullptr, comm) != sparsecollSuccess)
        return;
    const double before = nowMs();
    finding.result = sparsecollReducerRun(reducers[rank == odd ? 1 : 0], in.data(), out.data(), nullptr);
    finding.atMs = nowMs() - before;
    // All go on in step afterwards.
    finding.numbers[0] = sparsecollReducerRun(reducers[0], in.data(), out.data(), nullptr);
    finding.numbers[1] = static_cast<int64_t>(out[999]);
    for (sparsecollReducer_t reducer : reducers) (void)sparsecollReducerDestroy(reducer);
    (void)sparsecollCommDestroy(comm);
  });
  REQUIRE(processes.awaitEnd(120000));
  for (int rank = 0; rank < 3; ++rank) {
    CAPTURE(rank, processes[rank].text);
    REQUIRE(processes[rank].made == sparsecollSuccess);
    CHECK(processes[rank].result == sparsecollMismatch);
    CHECK(processes[rank].atMs < 30000);  // long before the deadline
    CHECK(processes[rank].numbers[0] == sparsecollSuccess);
    CHECK(processes[rank].numbers[1] == 3);
  }
}

// A rank that is late in a sum may still be there when the others have given up the next operation and go on.
TEST_CASE("sums come out right behind operations that ranks gave up, however late one of them is") {
  constexpr int kTurns = 801;
  constexpr uint64_t kElements = 60;  // rank 0 sums all, and waits for nobody who has still to read the sum
  const Way way = GENERATE(from_range(engines()));
  CAPTURE(way.name());
  Processes processes(3, way);
  processes.start([&](int rank, Finding& finding) {
    auto config = SPARSECOLL_INIT(sparsecollConfig_t);
    config.transport = way.engine;
    config.opTimeoutMs = 60000;
    sparsecollComm_t comm = processes.join(rank, &config);
    if (finding.made != sparsecollSuccess) return;
    const sparsecollParams_t of[] = {preset("dense", 0), preset("topka", 0.1)};
    sparsecollReducer_t reducers[2] = {};
    int64_t& wrong = finding.numbers[0];
    for (int r = 0; r < 2; ++r)
      wrong += sparsecollReducerCreate(&reducers[r], kElements, sparsecollFloat32, &of[r], nullptr, comm);
    Elements in(sparsecollFloat32, kElements), out(sparsecollFloat32, kElements);
    finding.stage = 1;
    for (int turn = 0; wrong == 0 && turn < kTurns; ++turn) {
      in.fill((rank + 1) * (turn % 50 + 1));
      const bool parted = turn % 2 == 1;
      const sparsecollResult_t ran =
          sparsecollReducerRun(reducers[parted && rank == 1 ? 1 : 0], in.data(), out.data(), nullptr);
      wrong += ran != (parted ? sparsecollMismatch : sparsecollSuccess) ? 1 : 0;
      if (wrong != 0)
        std::snprintf(finding.text, sizeof finding.text, "turn %d: %d %s", turn, ran, sparsecollGetLastError());
      for (uint64_t i = 0; !parted && i < kElements; ++i) wrong += out[i] != 6 * (turn % 50 + 1) ? 1 : 0;
    }
    finding.stage = 2;
    for (sparsecollReducer_t reducer : reducers) (void)sparsecollReducerDestroy(reducer);
    finding.result = sparsecollCommDestroy(comm);
  });
  REQUIRE(processes.awaitStage(2, 1));
  for (int stop = 0; stop < 1000 && processes[0].stage < 2; ++stop) {
    kill(processes.process(2), SIGSTOP);
    usleep(500);
    kill(processes.process(2), SIGCONT);
    usleep(200 + static_cast<useconds_t>(stop % 7) * 50);
  }
  checkNoneWrong(processes, 3);
}

TEST_CASE("a rank that dies or stops in a sum ends it for the others, with its number, shared memory or not") {
  const Way way = GENERATE(from_range(engines()));
  const int signal = GENERATE(SIGKILL, SIGSTOP);
  const char* const shares = GENERATE("0", "1");
  const uint64_t n = GENERATE(uint64_t{3000}, kLong);
  CAPTURE(way.name(), signal, shares, n);
  Processes processes(3, way);
  processes.start([&](int rank, Finding& finding) {
    setenv("SPARSECOLL_SHARED_MEMORY", shares, 1);
    auto config = SPARSECOLL_INIT(sparsecollConfig_t);
    config.transport = way.engine;
    config.opTimeoutMs = signal == SIGSTOP ? 2000 : 60000;
    config.abortTimeoutMs = 200;
    sparsecollComm_t comm = processes.join(rank, &config);
    if (finding.made != sparsecollSuccess) return;
    (void)stepUntilFailure(finding, comm, stepsOf("dense"), n);  // as good as always in a sum
    (void)sparsecollCommDestroy(comm);
  });
  REQUIRE(processes.awaitStage(1, 1));
  kill(processes.process(1), signal);
  REQUIRE(processes.awaitEnd(60000, {1}));
  CHECK(endedBy(processes, 3, 1, signal == SIGKILL ? sparsecollPeerFailed : sparsecollTimeout) >= 1);
}

TEST_CASE("what a rank counts that cannot be is Corrupted, and its peers name it") {
  const Way way = GENERATE(from_range(engines()));
  CAPTURE(way.name());
  Processes processes(2, way);
  processes.start([&](int rank, Finding& finding) {
    sparsecollComm_t comm = processes.join(rank);
    if (finding.made != sparsecollSuccess) return;
    // The first page holds the words for peers, behind 64 bytes that say whose it is.
    const std::vector<Mapped> own = ownSharedMemory();
    finding.numbers[0] = static_cast<int64_t>(own.size());
    for (const Mapped& mapped : own)
      if (rank == 1) std::memset(mapped.begin + 64, 0x11, 4096 - 64);
    (void)stepUntilFailure(finding, comm, stepsOf("dense"), 1000000);
    (void)sparsecollCommDestroy(comm);
  });
  REQUIRE(processes.awaitEnd(60000));
  CHECK(processes[0].numbers[0] == 1);
  CAPTURE(processes[0].text, processes[1].text);
  CHECK(processes[0].result == sparsecollCorrupted);
  CHECK(processes[0].peer == 1);
}

}  // namespace sparsecoll::test
