// Two nodes of two processes each: the bits of ranks on threads, and a peer that is killed.
#include <algorithm>
#include <string>

#include "tests/processes/processes.h"
#include "tests/support/catch.h"
#include "tests/support/node_groups.h"

namespace sparsecoll::test {
namespace {

constexpr NodeShape kShape{4, 2};
constexpr uint64_t kLength = 20000;
const char* const kPresets[] = {"dense", "topka", "oktopk", "gtopk", "spardl", "micro", "sidco-e"};

sparsecollConfig_t configOver(const Way& way) {
  sparsecollConfig_t config = nodesOf(kShape.perNode);
  config.transport = way.engine;
  return config;
}

Elements gradientOf(int rank, uint64_t step) {
  Elements gradient(sparsecollFloat32, kLength);
  Random random(static_cast<uint64_t>(rank) * 1000 + step + 7);
  for (size_t i = 0; i < kLength; ++i) gradient.set(i, random.bell());
  return gradient;
}

// A rank's communicator over nodes and a reducer on it, and what a fault made of its steps.
class Member {
 public:
  Member(Processes& processes, int rank, const Way& way, const sparsecollParams_t& params, Finding& finding)
      : rank_(rank), finding_(finding) {
    const sparsecollConfig_t config = configOver(way);
    comm_ = processes.join(rank, &config);
    made_ =
        sparsecollReducerCreate(&reducer_, kLength, sparsecollFloat32, &params, nullptr, comm_) == sparsecollSuccess;
  }
  ~Member() {
    (void)sparsecollReducerDestroy(reducer_);
    (void)sparsecollCommDestroy(comm_);
  }
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  sparsecollComm_t comm() const { return comm_; }
  sparsecollReducer_t reducer() const { return reducer_; }
  // Steps until one fails; a stage each. The first gradient is gradientOf(rank, 0), the later ones are it or zeros.
  bool stepUntilFailure(bool zerosLater) {
    if (!made_) return false;
    Elements gradient = gradientOf(rank_, 0);
    Elements out(sparsecollFloat32, kLength);
    for (finding_.result = sparsecollSuccess; finding_.result == sparsecollSuccess; ++finding_.stage) {
      finding_.result = sparsecollReducerRun(reducer_, gradient.data(), out.data(), nullptr);
      if (zerosLater) gradient.fill(0);
    }
    return true;
  }

 private:
  const int rank_;
  Finding& finding_;
  sparsecollComm_t comm_ = nullptr;
  sparsecollReducer_t reducer_ = nullptr;
  bool made_ = false;
};

// Of what a rank got and kept, and whether every call succeeded.
uint64_t hashOfSteps(const std::string& name, int rank, sparsecollComm_t comm) {
  const sparsecollParams_t params = overNodes(preset(name.c_str(), name == "dense" ? 0 : 0.01));
  sparsecollReducer_t reducer = nullptr;
  const sparsecollResult_t made = sparsecollReducerCreate(&reducer, kLength, sparsecollFloat32, &params, nullptr, comm);
  uint64_t hash = static_cast<uint64_t>(made) + 1;
  Elements out(sparsecollFloat32, kLength);
  for (uint64_t step = 0; made == sparsecollSuccess && step < 3; ++step) {
    const sparsecollResult_t ran = sparsecollReducerRun(reducer, gradientOf(rank, step).data(), out.data(), nullptr);
    hash = hashBytes(&ran, sizeof ran, hashBytes(out.data(), out.byteCount(), hash));
  }
  const Elements left = residualOf(reducer);
  if (left.size() != 0) hash = hashBytes(left.data(), left.byteCount(), hash);
  (void)sparsecollReducerDestroy(reducer);
  return hash;
}

TEST_CASE("nodes of processes have the bits of nodes of threads") {
  const sparsecollConfig_t onThreads = nodesOf(kShape.perNode);
  const Ranks threads(kShape.ranks, &onThreads);
  std::vector<std::vector<uint64_t>> expected(static_cast<size_t>(kShape.ranks));
  threads.run([&](int rank, sparsecollComm_t comm) {
    for (const char* const name : kPresets)
      expected[static_cast<size_t>(rank)].push_back(hashOfSteps(name, rank, comm));
  });
  for (const Way& way : engines()) {
    CAPTURE(way.name());
    Processes processes(kShape.ranks, way);
    processes.start([&](int rank, Finding& finding) {
      const sparsecollConfig_t config = configOver(way);
      sparsecollComm_t comm = processes.join(rank, &config);
      if (finding.made != sparsecollSuccess) return;
      for (size_t p = 0; p < std::size(kPresets); ++p) finding.hashes[p] = hashOfSteps(kPresets[p], rank, comm);
      finding.result = sparsecollCommDestroy(comm);
    });
    REQUIRE(processes.awaitEnd(120000));
    for (int rank = 0; rank < kShape.ranks; ++rank)
      for (size_t p = 0; p < std::size(kPresets); ++p) {
        CAPTURE(rank, kPresets[p], processes[rank].text);
        CHECK(processes[rank].hashes[p] == expected[static_cast<size_t>(rank)][p]);
      }
  }
}

// Rank 3 is of node 1 and owns shard 1: rank 2 misses it inside the node, rank 1 between nodes, rank 0 neither.
TEST_CASE("a process that is killed ends the steps of its node, of its shard, and of all others") {
  for (const Way& way : engines()) {
    CAPTURE(way.name());
    Processes processes(kShape.ranks, way);
    processes.start([&](int rank, Finding& finding) {
      Member member(processes, rank, way, overNodes(preset("topka", 0.01)), finding);
      if (member.stepUntilFailure(false)) finding.peer = failureOf(member.comm()).peer;
    });
    REQUIRE(processes.awaitStage(3, 5));
    kill(processes.process(3), SIGKILL);
    REQUIRE(processes.awaitEnd(60000, {3}));
    for (int rank = 0; rank < 3; ++rank) {
      CAPTURE(rank);
      CHECK(processes[rank].result == sparsecollPeerFailed);
      CHECK(processes[rank].peer == 3);
    }
  }
}

// All nodes' residuals as every rank gets them: 0 entries are wrong, or -1 if a call fails.
int64_t wrongAfterMove(sparsecollReducer_t moved, sparsecollComm_t comm) {
  Elements expected = nodeSum({gradientOf(0, 0), gradientOf(1, 0)}, {2, 2}, 0);
  const Elements second = nodeSum({gradientOf(2, 0), gradientOf(3, 0)}, {2, 2}, 0);
  const Shard left = shardOf(kLength, 2, 0);  // rank 3 held the other one of node 1
  for (uint64_t i = left.begin; i < left.end; ++i) expected.set(i, roundTo(sparsecollFloat32, expected[i] + second[i]));
  Elements sum(sparsecollFloat32, kLength);
  if (sparsecollReducerFlush(moved, sum.data(), nullptr) != sparsecollSuccess) return -1;
  const sparsecollParams_t dense = preset("dense", 0);
  if (sparsecollAllReduce(sum.data(), sum.data(), kLength, sparsecollFloat32, &dense, comm, nullptr) !=
      sparsecollSuccess)
    return -1;
  int64_t wrong = 0;
  for (uint64_t i = 0; i < kLength; ++i) wrong += sum[i] != expected[i] ? 1 : 0;
  return wrong;
}

TEST_CASE("what the processes that are left have held goes to the owners of larger shards") {
  for (const Way& way : engines()) {
    CAPTURE(way.name());
    Processes processes(kShape.ranks, way);
    processes.start([&](int rank, Finding& finding) {
      sparsecollParams_t params = overNodes(preset("topka", 0));
      params.flags = SPARSECOLL_SELECT_NOTHING;
      Member member(processes, rank, way, params, finding);
      if (!member.stepUntilFailure(true)) return;
      sparsecollComm_t fewer = nullptr;
      sparsecollReducer_t moved = nullptr;
      finding.made = sparsecollCommShrink(member.comm(), nullptr, 0, &fewer, nullptr);
      if (finding.made == sparsecollSuccess)
        finding.made = sparsecollReducerMove(member.reducer(), fewer, &moved, nullptr);
      if (finding.made == sparsecollSuccess) finding.numbers[0] = wrongAfterMove(moved, fewer);
      if (finding.made == sparsecollSuccess) finding.numbers[1] = static_cast<int64_t>(statsOf(moved).entriesLost);
      (void)sparsecollReducerDestroy(moved);
      (void)sparsecollCommDestroy(fewer);
    });
    REQUIRE(processes.awaitStage(3, 5));
    kill(processes.process(3), SIGKILL);
    REQUIRE(processes.awaitEnd(60000, {3}));
    int64_t lost = 0;
    for (int rank = 0; rank < 3; ++rank) {
      CAPTURE(rank, processes[rank].text);
      CHECK(processes[rank].result == sparsecollPeerFailed);
      CHECK(processes[rank].made == sparsecollSuccess);
      CHECK(processes[rank].numbers[0] == 0);
      lost += processes[rank].numbers[1];
    }
    CHECK(lost == static_cast<int64_t>(shardOf(kLength, 2, 1).length()));
  }
}

}  // namespace
}  // namespace sparsecoll::test
