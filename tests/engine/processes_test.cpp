// Ranks in processes of their own: one that is killed is named by the others, one that ends well is not missed.
#include "tests/support/catch.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>

#include "tests/support/elements.h"
#include "tests/support/pair_engine.h"
#include "tests/support/ranks.h"

using namespace sparsecoll::test;

namespace {

constexpr uint64_t kLength = 30000;

// What a rank's process ends with: 100 + the result of its last step.
constexpr int kBase = 100;

int runRank(PairMesh& mesh, int rank, int steps, const char* name) {
  auto* const engine = new PairEngine(rank, mesh.takeSockets(rank));
  for (int other = 0; other < mesh.ranks(); ++other)
    for (const int socket : mesh.takeSockets(other))
      if (socket >= 0) close(socket);
  const sparsecollEngine_t table = engine->table();
  sparsecollConfig_t config = SPARSECOLL_INIT(sparsecollConfig_t);
  config.opTimeoutMs = 30000;
  sparsecollComm_t comm = nullptr;
  if (sparsecollCommInitEngine(&comm, mesh.ranks(), rank, SPARSECOLL_HOST, &table, &config) != sparsecollSuccess)
    return 1;
  const sparsecollParams_t params = preset(name, name == std::string("dense") ? 0 : 0.1);
  sparsecollReducer_t reducer = nullptr;
  if (sparsecollReducerCreate(&reducer, kLength, sparsecollFloat32, &params, nullptr, comm) != sparsecollSuccess)
    return 2;
  std::vector<float> vector(kLength, 1.0f);
  sparsecollResult_t result = sparsecollSuccess;
  for (int step = 0; step < steps && result == sparsecollSuccess; ++step)
    result = sparsecollReducerRun(reducer, vector.data(), vector.data(), nullptr);
  if (sparsecollReducerDestroy(reducer) != sparsecollSuccess || sparsecollCommDestroy(comm) != sparsecollSuccess)
    return 3;
  return kBase + result;
}

std::vector<pid_t> startRanks(int ranks, int steps, const char* name) {
  PairMesh mesh(ranks);
  std::vector<pid_t> children;
  RankThreads::ofProcess().dismiss();
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t child = fork();
    if (child == 0) _exit(runRank(mesh, rank, steps, name));
    children.push_back(child);
  }
  return children;
}

int statusOf(pid_t child) {
  int status = 0;
  if (waitpid(child, &status, 0) != child) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace

TEST_CASE("steps between processes") {
  for (const char* const name : {"topka", "micro", "spardl", "gtopk", "dense"}) {
    CAPTURE(name);
    for (const pid_t child : startRanks(4, 20, name)) CHECK(statusOf(child) == kBase + sparsecollSuccess);
  }
}

TEST_CASE("a rank that is killed at any moment: PeerFailed on the others") {
  const auto seed = static_cast<uint64_t>(getpid());
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  Random random(seed);
  for (int trial = 0; trial < 10; ++trial) {
    const char* const name = trial % 3 == 0 ? "topka" : trial % 3 == 1 ? "spardl" : "dense";
    const auto victim = static_cast<size_t>(random.below(4));
    const auto delay = static_cast<useconds_t>(20000 + random.below(150000));
    CAPTURE(trial, name, victim, delay);
    const std::vector<pid_t> children = startRanks(4, 1000000, name);
    usleep(delay);
    kill(children[victim], SIGKILL);
    for (size_t rank = 0; rank < children.size(); ++rank) {
      CAPTURE(rank);
      const int status = statusOf(children[rank]);
      // Killed while the ranks still make their communicators, it shows there.
      if (rank == victim)
        CHECK(status == -SIGKILL);
      else
        CHECK((status == kBase + sparsecollPeerFailed || status == 1 || status == 2));
    }
  }
}
