// Dense sums of processes that share memory: which of them do, the same bits whoever does, and what becomes of the
// others when one of them dies, stops, or writes what cannot be.
#include <fstream>
#include <sstream>

#include "tests/processes/processes.h"
#include "tests/support/catch.h"

namespace sparsecoll::test {
namespace {

constexpr int kMostRanks = 4;

struct Sum {
  uint64_t n;
  sparsecollDataType_t type;
  bool inPlace;
  uint32_t flags;
};

const Sum kSums[] = {{1, sparsecollFloat32, true, 0},
                     {63, sparsecollFloat64, false, SPARSECOLL_ACCUMULATE},
                     {5000, sparsecollFloat16, true, 0},
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
    for (int step = 0; step < 3; ++step) {
      Random random(static_cast<uint64_t>(rank) * 100 + static_cast<uint64_t>(step));
      for (size_t i = 0; i < sum.n; ++i) in.set(i, random.bell());
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

struct Mapped {
  std::byte* begin;
  std::byte* end;
};

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
  const int ranks = GENERATE(2, 3, kMostRanks);
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

TEST_CASE("a rank that dies or stops in a sum that ranks share ends it for the others, with its number") {
  const Way way = GENERATE(from_range(engines()));
  const int signal = GENERATE(SIGKILL, SIGSTOP);
  CAPTURE(way.name(), signal);
  Processes processes(3, way);
  processes.start([&](int rank, Finding& finding) {
    auto config = SPARSECOLL_INIT(sparsecollConfig_t);
    config.transport = way.engine;
    config.opTimeoutMs = signal == SIGSTOP ? 2000 : 60000;
    config.abortTimeoutMs = 200;
    sparsecollComm_t comm = processes.join(rank, &config);
    if (finding.made != sparsecollSuccess) return;
    (void)stepUntilFailure(finding, comm, stepsOf("dense"), 4000000);  // so long that it is always in a sum
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
