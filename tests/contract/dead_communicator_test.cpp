// On a communicator that has ended, collective calls return the code that ended it, and what the head of sparsecoll.h
// calls useful works.
#include "tests/support/catch.h"

#include <cctype>
#include <set>

#include "tests/contract/words_of_header.h"
#include "tests/support/folder.h"
#include "tests/support/group.h"

using namespace sparsecoll::test;

namespace {

constexpr uint64_t kLength = 2000;

// Calls that take a communicator or a reducer on it, of a rank alone.
struct World {
  World() : ranks(1), reducers(ranks, kLength, sparsecollFloat32, preset("topka", 0.1)), vector(kLength, 1) {
    in.add(3, 1);
    REQUIRE(sparsecollReducerCreate(&own, kLength, type, &params, nullptr, ranks[0]) == sparsecollSuccess);
  }
  ~World() {
    for (const sparsecollReducer_t reducer : {own, made, moved}) (void)sparsecollReducerDestroy(reducer);
    for (const sparsecollComm_t comm : {split, fewer}) (void)sparsecollCommDestroy(comm);
  }

  Ranks ranks;
  Reducers reducers;
  std::vector<float> vector;
  SparseVector in{sparsecollFloat32, kLength, 1}, sum{sparsecollFloat32, kLength, kLength};
  sparsecollParams_t params = preset("topka", 0.1);
  std::vector<std::byte> blob = std::vector<std::byte>(1 << 16);
  size_t bytes = 0;
  sparsecollStats_t stats = SPARSECOLL_INIT(sparsecollStats_t);
  sparsecollFailure_t failure = SPARSECOLL_INIT(sparsecollFailure_t);
  sparsecollCommDetails_t details = SPARSECOLL_INIT(sparsecollCommDetails_t);
  sparsecollReducerInfo_t info = SPARSECOLL_INIT(sparsecollReducerInfo_t);
  sparsecollResult_t state = sparsecollSuccess;
  void* data = nullptr;
  uint64_t n = 0;
  sparsecollDataType_t type = sparsecollFloat32;
  int number = 0;
  Folder folder;
  std::string recorded = folder.path() / "flight.json";
  sparsecollComm_t split = nullptr, fewer = nullptr;
  sparsecollReducer_t own = nullptr, made = nullptr, moved = nullptr;
};

#define CALL(name, expression)                                      \
  {                                                                 \
    name, [](World& w, sparsecollComm_t c, sparsecollReducer_t r) { \
      (void)w, (void)c, (void)r;                                    \
      return expression;                                            \
    }                                                               \
  }

struct NamedCall {
  const char* name;
  sparsecollResult_t (*run)(World&, sparsecollComm_t, sparsecollReducer_t);
};

// They return what ended the communicator.
const NamedCall kOfTheRanks[] = {
    CALL("CommWait", sparsecollCommWait(c, nullptr, 1)),
    CALL("CommSplit", sparsecollCommSplit(c, 0, 0, &w.split, nullptr)),
    CALL("AllReduce", sparsecollAllReduce(w.vector.data(), w.vector.data(), kLength, w.type, &w.params, c, nullptr)),
    CALL("AllReduceVector", sparsecollAllReduceVector(w.in.view(), w.sum.view(), nullptr, c, nullptr)),
    CALL("ReduceScatterVector", sparsecollReduceScatterVector(w.in.view(), w.sum.view(), nullptr, c, nullptr)),
    CALL("AllGatherVector", sparsecollAllGatherVector(w.in.view(), w.sum.view(), c, nullptr)),
    CALL("ReducerCreate", sparsecollReducerCreate(&w.made, kLength, w.type, &w.params, nullptr, c)),
    CALL("ReducerRun", sparsecollReducerRun(r, w.vector.data(), w.vector.data(), nullptr)),
    CALL("ReducerRunSparse", sparsecollReducerRunSparse(r, w.vector.data(), w.sum.view(), nullptr)),
};

// They work as ever. In this order: a communicator is shrunk before its reducers move.
const NamedCall kOfOneRank[] = {
    CALL("CommGetInfo", sparsecollCommGetInfo(c, &w.number, nullptr, nullptr)),
    CALL("CommGetDetails", sparsecollCommGetDetails(c, &w.details)),
    CALL("CommGetAsyncError", sparsecollCommGetAsyncError(c, &w.state)),
    CALL("CommGetFailure", sparsecollCommGetFailure(c, &w.failure)),
    CALL("CommGetPeerFailure", sparsecollCommGetPeerFailure(c, &w.failure)),
    CALL("CommDumpFlightRecorder", sparsecollCommDumpFlightRecorder(c, w.recorded.c_str())),
    CALL("GetStats", sparsecollGetStats(c, &w.stats)),
    CALL("ResetStats", sparsecollResetStats(c)),
    CALL("ReducerGetInfo", sparsecollReducerGetInfo(r, &w.info)),
    CALL("ReducerGetStats", sparsecollReducerGetStats(r, &w.stats)),
    CALL("ReducerGetResidual", sparsecollReducerGetResidual(r, &w.data, &w.n, &w.type)),
    CALL("ReducerExport", sparsecollReducerExport(r, w.blob.data(), &(w.bytes = w.blob.size()), nullptr)),
    CALL("ReducerFlush", sparsecollReducerFlush(r, w.vector.data(), nullptr)),
    CALL("CommShrink", sparsecollCommShrink(c, nullptr, 0, &w.fewer, nullptr)),
    CALL("ReducerMove", sparsecollReducerMove(r, w.fewer, &w.moved, nullptr)),
    CALL("CommAbort", sparsecollCommAbort(c)),
    CALL("ReducerDestroy", sparsecollReducerDestroy(w.own)),
    CALL("CommDestroy", sparsecollCommDestroy(w.ranks.release(0))),
};

// The names in the header's list of what remains useful. Lower-case words are prose.
std::set<std::string> usefulInHeader() {
  std::set<std::string> names;
  for (const std::string& line : listOfHead("What remains useful:"))
    for (const std::string& word : wordsOf(line))
      if (std::isupper(static_cast<unsigned char>(word[0])) != 0) CHECK(names.insert(word).second);
  return names;
}

}  // namespace

TEST_CASE("on a dead communicator collective calls return what ended it, and what the header lists works") {
  World world;
  const sparsecollComm_t comm = world.ranks[0];
  REQUIRE(sparsecollReducerRun(world.reducers[0], world.vector.data(), world.vector.data(), nullptr) ==
          sparsecollSuccess);
  REQUIRE(sparsecollCommAbort(comm) == sparsecollSuccess);
  for (const NamedCall& call : kOfTheRanks) {
    CAPTURE(call.name);
    CHECK(call.run(world, comm, world.reducers[0]) == sparsecollAborted);
  }
  CHECK(world.made == nullptr);
  std::set<std::string> useful = usefulInHeader();
  for (const NamedCall& call : kOfOneRank) {
    CAPTURE(call.name);
    CHECK(call.run(world, comm, world.reducers[0]) == sparsecollSuccess);
    useful.erase(call.name);
  }
  CHECK(useful.empty());
  CHECK(world.state == sparsecollAborted);
}
