// Ranks of an MPI job: the presets have the bits of ranks that share memory, disagreement and failures show as they do
// there, and communicators come and go. Ends with 0 if every rank finds all right. usage: mpirun -n RANKS mpi_steps
#include <sparsecoll/mpi.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/elements.h"
#include "tests/support/hash.h"
#include "tests/support/node_groups.h"
#include "tests/support/presets.h"
#include "tests/support/ranks.h"

namespace sparsecoll::test {

namespace {

int faults = 0;
int myRank = 0;
int rankCount = 1;

void expect(bool right, const std::string& what) {
  if (right) return;
  ++faults;
  std::fprintf(stderr, "rank %d of %d: %s (last error: %s)\n", myRank, rankCount, what.c_str(),
               sparsecollGetLastError());
}

sparsecollConfig_t configOf(uint64_t timeoutMs) {
  sparsecollConfig_t config = SPARSECOLL_INIT(sparsecollConfig_t);
  config.opTimeoutMs = timeoutMs;
  config.abortTimeoutMs = 2000;
  return config;
}

// A communicator over MPI_COMM_WORLD, destroyed at the end.
class Comm {
 public:
  explicit Comm(uint64_t timeoutMs = 60000) {
    const sparsecollConfig_t config = configOf(timeoutMs);
    expect(sparsecollCommInitMpi(&handle_, MPI_COMM_WORLD, SPARSECOLL_HOST, &config) == sparsecollSuccess,
           "CommInitMpi");
  }
  ~Comm() { expect(sparsecollCommDestroy(handle_) == sparsecollSuccess, "CommDestroy"); }
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;
  operator sparsecollComm_t() const { return handle_; }

 private:
  sparsecollComm_t handle_ = nullptr;
};

struct Steps {
  const char* name;
  uint64_t n;
  sparsecollDataType_t type;
  uint32_t flags;
  bool inPlace;
  bool overNodes = false;
};

// Whole numbers, so that any order of adding gives the same dense sums.
Elements gradientOf(const Steps& steps, int rank, uint64_t step) {
  Elements gradient(steps.type, steps.n);
  Random random(step * 100 + static_cast<uint64_t>(rank));
  for (size_t i = 0; i < steps.n; ++i) gradient.set(i, static_cast<double>(random.below(17)) - 8);
  return gradient;
}

sparsecollParams_t paramsOf(const Steps& steps) {
  sparsecollParams_t params = preset(steps.name, std::string(steps.name) == "dense" ? 0 : 0.02);
  params.flags = steps.flags;
  return steps.overNodes ? overNodes(params) : params;
}

// Of sums and residual after a few steps; 0 where one fails.
uint64_t run(sparsecollComm_t comm, int rank, const Steps& steps) {
  const sparsecollParams_t params = paramsOf(steps);
  sparsecollReducer_t reducer = nullptr;
  if (sparsecollReducerCreate(&reducer, steps.n, steps.type, &params, nullptr, comm) != sparsecollSuccess) return 0;
  uint64_t hash = 1;
  Elements out(steps.type, steps.n);
  for (uint64_t step = 0; step < 3 && hash != 0; ++step) {
    Elements gradient = gradientOf(steps, rank, step);
    Elements& to = steps.inPlace && rank % 2 == 1 ? gradient : out;
    const bool good = sparsecollReducerRun(reducer, gradient.data(), to.data(), nullptr) == sparsecollSuccess;
    hash = good ? hashBytes(to.data(), to.byteCount(), hash) : 0;
  }
  void* residual = nullptr;
  uint64_t n = 0;
  sparsecollDataType_t type = sparsecollFloat32;
  if (sparsecollReducerGetResidual(reducer, &residual, &n, &type) == sparsecollSuccess && residual != nullptr)
    hash = hash == 0 ? 0 : hashBytes(residual, n * bytesOf(type), hash);
  (void)sparsecollReducerDestroy(reducer);
  return hash;
}

// Rank 0 runs the same on threads, and tells every rank what it should have.
void checkAsThreads(sparsecollComm_t comm, const Steps& steps) {
  std::vector<uint64_t> hashes(static_cast<size_t>(rankCount));
  if (myRank == 0) {
    const Ranks threads(rankCount);
    threads.run([&](int rank, sparsecollComm_t one) { hashes[static_cast<size_t>(rank)] = run(one, rank, steps); });
  }
  uint64_t wanted = 0;
  MPI_Scatter(hashes.data(), 1, MPI_UINT64_T, &wanted, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
  const uint64_t got = run(comm, myRank, steps);
  expect(got != 0 && got == wanted, std::string(steps.name) + ", " + nameOf(steps.type) + ": other bits than threads");
}

void everyPreset() {
  const Comm comm;
  for (const std::string& name : allPresets()) checkAsThreads(comm, {name.c_str(), 5003, sparsecollFloat32, 0, false});
  checkAsThreads(comm, {"topka", 400009, sparsecollFloat32, 0, false});
  for (const sparsecollDataType_t type : kAllTypes)
    for (const uint32_t flags : {0u, SPARSECOLL_ACCUMULATE}) {
      checkAsThreads(comm, {"dense", 300007, type, flags, false});
      if (flags == 0) checkAsThreads(comm, {"dense", 3001, type, flags, true});
    }
}

// Nodes of two ranks: MPI's communicator and the threads' learn it in the same way.
void somePresetsOverNodes() {
  setenv("SPARSECOLL_RANKS_PER_NODE", "2", 1);
  {
    const Comm comm;
    for (const char* const name : {"dense", "topka", "spardl", "micro", "gtopk"})
      checkAsThreads(comm, {name, 5003, sparsecollFloat32, 0, false, true});
    checkAsThreads(comm, {"topka", 400009, sparsecollBfloat16, 0, true, true});
  }
  unsetenv("SPARSECOLL_RANKS_PER_NODE");
}

std::vector<sparsecollResult_t> resultsOf(sparsecollResult_t mine) {
  std::vector<int> all(static_cast<size_t>(rankCount));
  const int own = mine;
  MPI_Allgather(&own, 1, MPI_INT, all.data(), 1, MPI_INT, MPI_COMM_WORLD);
  std::vector<sparsecollResult_t> results;
  for (const int one : all) results.push_back(static_cast<sparsecollResult_t>(one));
  return results;
}

class Reducer {
 public:
  Reducer(sparsecollComm_t comm, const char* name, uint64_t n, double density) : vector_(n, 1.0f) {
    const sparsecollParams_t params = preset(name, density);
    expect(sparsecollReducerCreate(&handle_, n, sparsecollFloat32, &params, nullptr, comm) == sparsecollSuccess,
           "ReducerCreate");
  }
  ~Reducer() { (void)sparsecollReducerDestroy(handle_); }
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;
  sparsecollResult_t step() { return sparsecollReducerRun(handle_, vector_.data(), vector_.data(), nullptr); }

 private:
  std::vector<float> vector_;
  sparsecollReducer_t handle_ = nullptr;
};

// Frames of many sizes are left over, in the envelopes and apart.
void mismatch() {
  const Comm comm;
  Reducer small(comm, "topka", 500, 0.1);
  Reducer large(comm, "topka", 200000, 0.2);
  Reducer relayed(comm, "spardl", 100000, 0.1);
  Reducer dense(comm, "dense", 50000, 0);
  for (int trial = 0; trial < 12; ++trial) {
    Reducer& odd = trial % 3 == 0 ? small : trial % 3 == 1 ? relayed : dense;
    const sparsecollResult_t mine = myRank == trial % rankCount ? odd.step() : large.step();
    for (const sparsecollResult_t one : resultsOf(mine)) expect(one == sparsecollMismatch, "Mismatch on all ranks");
    for (Reducer* const reducer : {&small, &large, &relayed, &dense})
      expect(reducer->step() == sparsecollSuccess, "the step after a Mismatch");
  }
}

void timeout() {
  {
    const Comm comm(1500);
    Reducer reducer(comm, "topka", 100000, 0.1);
    expect(reducer.step() == sparsecollSuccess, "a step");
    if (myRank == 0) return (void)resultsOf(sparsecollSuccess);
    const sparsecollResult_t mine = reducer.step();
    sparsecollFailure_t failure = SPARSECOLL_INIT(sparsecollFailure_t);
    expect(sparsecollCommGetFailure(comm, &failure) == sparsecollSuccess, "CommGetFailure");
    expect(mine == sparsecollTimeout || mine == sparsecollPeerFailed, "Timeout where rank 0 does not come");
    if (mine == sparsecollTimeout) expect(failure.peer == 0, "the Timeout names rank 0");
    (void)resultsOf(mine);
  }
}

void abortOne() {
  const Comm comm(20000);
  Reducer reducer(comm, "spardl", 100000, 0.1);
  expect(reducer.step() == sparsecollSuccess, "a step");
  if (myRank == rankCount - 1) {
    expect(sparsecollCommAbort(comm) == sparsecollSuccess, "CommAbort");
    expect(reducer.step() == sparsecollAborted, "Aborted on the rank itself");
  } else {
    expect(reducer.step() == sparsecollPeerFailed, "PeerFailed on the others");
  }
}

// Each must have a channel of its own, and leave nothing behind for the next.
void manyCommunicators() {
  for (int i = 0; i < 10; ++i) {
    const Comm first;
    const Comm second;
    Reducer a(first, "topka", 1000, 0.1);
    Reducer b(second, "gtopk", 1000, 0.1);
    for (int step = 0; step < 3; ++step)
      expect(a.step() == sparsecollSuccess && b.step() == sparsecollSuccess, "steps of two communicators in turn");
  }
}

// Ranks of two groups that face each other have no common sum.
void noGroup() {
  const auto made = [](MPI_Comm from) {
    sparsecollComm_t comm = nullptr;
    return sparsecollCommInitMpi(&comm, from, SPARSECOLL_HOST, nullptr);
  };
  expect(made(MPI_COMM_NULL) == sparsecollInvalidArgument, "MPI_COMM_NULL");
  if (rankCount < 2) return;
  MPI_Comm half = MPI_COMM_NULL, facing = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, myRank % 2, 0, &half);
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - myRank % 2, 7, &facing);
  expect(made(facing) == sparsecollInvalidArgument, "an intercommunicator");
  MPI_Comm_free(&facing);
  MPI_Comm_free(&half);
}

}  // namespace

}  // namespace sparsecoll::test

int main(int argc, char** argv) {
  using namespace sparsecoll::test;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &myRank);
  MPI_Comm_size(MPI_COMM_WORLD, &rankCount);
  const std::pair<const char*, void (*)()> tests[] = {{"everyPreset", everyPreset},
                                                      {"somePresetsOverNodes", somePresetsOverNodes},
                                                      {"mismatch", mismatch},
                                                      {"timeout", timeout},
                                                      {"manyCommunicators", manyCommunicators},
                                                      {"abort", abortOne},
                                                      {"noGroup", noGroup},
                                                      {"everyPreset again", everyPreset}};
  for (const auto& [name, test] : tests) {
    const double start = MPI_Wtime();
    test();
    MPI_Barrier(MPI_COMM_WORLD);
    if (myRank == 0) std::printf("%s: %.1f s, %d faults here\n", name, MPI_Wtime() - start, faults);
    std::fflush(stdout);
  }
  sparsecollComm_t late = nullptr;
  expect(sparsecollCommInitMpi(&late, MPI_COMM_WORLD, SPARSECOLL_HOST, nullptr) == sparsecollSuccess, "CommInitMpi");
  int all = 0;
  MPI_Allreduce(&faults, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Finalize();
  const bool destroyed = sparsecollCommDestroy(late) == sparsecollSuccess;
  if (myRank == 0) std::printf("%d faults on %d ranks\n", all, rankCount);
  return all == 0 && destroyed ? 0 : 1;
}
