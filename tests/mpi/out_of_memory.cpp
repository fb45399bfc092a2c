// Memory runs out in a rank of an MPI job, at the i-th allocation of the library's, for every i until a call goes
// through (T46): the call tells, the other rank returns before the deadline, and communicators can be made again. Ends
// with 0 if so. usage: mpirun -n 2 mpi_out_of_memory     SPARSECOLL_TEST_EVERY: every allocation, not some
#include <sparsecoll/mpi.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>

#include "tests/support/poor_calls.h"
#include "tests/support/refused_memory.h"

namespace sparsecoll::test {

namespace {

constexpr int kPoor = 1;  // the rank without memory
int myRank = 0;
int faults = 0;

void expect(bool right, const std::string& what) {
  if (right) return;
  ++faults;
  std::fprintf(stderr, "rank %d: %s (last error: %s)\n", myRank, what.c_str(), sparsecollGetLastError());
}

// Who waits for a rank that never came waits for all of initTimeoutMs.
sparsecollResult_t join(PoorPlace& at, uint64_t initTimeoutMs) {
  sparsecollConfig_t config = SPARSECOLL_INIT(sparsecollConfig_t);
  config.initTimeoutMs = initTimeoutMs;
  config.opTimeoutMs = 20000;
  config.abortTimeoutMs = 500;
  return sparsecollCommInitMpi(&at.comm, MPI_COMM_WORLD, SPARSECOLL_HOST, &config);
}

struct Attempt {
  bool refused = false;
  sparsecollResult_t result = sparsecollSuccess;
};

// call: nullptr for joining itself.
Attempt attempt(const PoorCall* call, int64_t skip, const std::string& name) {
  PoorPlace at;
  Attempt made;
  int64_t left = -1;
  const auto poorly = [&](auto run) {
    memoryLeft = myRank == kPoor ? skip : -1;
    made.result = run();
    left = memoryLeft.exchange(-1);
  };
  if (call == nullptr) {
    poorly([&] { return join(at, 1500); });
  } else {
    const bool ready = join(at, 20000) == sparsecollSuccess && prepare(at, *call);
    expect(ready, name + ": no communicator");
    poorly([&] { return ready ? call->run(at, myRank) : sparsecollInternalError; });
  }
  made.refused = myRank == kPoor && left == -1;
  expect(made.result == sparsecollSuccess || sparsecollGetLastError()[0] != '\0', name + ": no text");
  expect(call == nullptr || made.result != sparsecollTimeout, name + ": waited for the deadline");
  clear(at);
  return made;
}

void runOut(const PoorCall* call, int64_t first, int64_t apart) {
  const std::string name = call == nullptr ? "init" : call->name;
  int refused = 0, told = 0;
  for (int64_t skip = first, again = 1; again != 0; skip += apart) {
    const Attempt made = attempt(call, skip, name + ", allocation " + std::to_string(skip));
    refused += made.refused ? 1 : 0;
    told += made.refused && made.result != sparsecollSuccess ? 1 : 0;
    again = made.refused && faults == 0 ? 1 : 0;
    MPI_Bcast(&again, 1, MPI_INT64_T, kPoor, MPI_COMM_WORLD);
  }
  if (myRank == kPoor) std::printf("MPI, %s: %d allocations refused, %d told\n", name.c_str(), refused, told);
  std::fflush(stdout);
}

}  // namespace

}  // namespace sparsecoll::test

int main(int argc, char** argv) {
  using namespace sparsecoll::test;
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &myRank);
  const int64_t apart = std::getenv("SPARSECOLL_TEST_EVERY") != nullptr ? 1 : 5;
  const int64_t first = static_cast<int64_t>(std::time(nullptr)) % apart;
  runOut(nullptr, first, apart);
  for (const PoorCall& call : kPoorCalls) runOut(&call, first, apart);
  MPI_Allreduce(MPI_IN_PLACE, &faults, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Finalize();
  return faults == 0 ? 0 : 1;
}
