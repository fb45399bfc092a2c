// Memory runs out at the i-th allocation of a call on one rank, for every i until the call succeeds (T46). OutOfMemory
// has no effect: that rank calls again and all is well, for the others too. Where they learn of it as a Mismatch, they
// call again as well.
#include "tests/support/catch.h"

#include <algorithm>
#include <functional>

#include "tests/support/group.h"
#include "tests/support/malloc_hooks.h"
#include "tests/support/node_groups.h"

using namespace sparsecoll::test;

namespace {

constexpr uint64_t kLength = 300;

// Made before memory runs out.
const sparsecollParams_t kTopK = preset("topka", 0.1);
const sparsecollParams_t kMicro = preset("micro", 0.1);
const sparsecollParams_t kAuto = preset("auto", 0.1);

// With whatever a reducer over nodes may need memory for.
sparsecollParams_t shaped(const char* name) {
  sparsecollParams_t params = overNodes(preset(name, name == std::string("dense") ? 0 : 0.1));
  params.momentum = 0.5;
  params.clipNorm = 1;
  return params;
}
const sparsecollParams_t kOverNodes = shaped("topka");
const sparsecollParams_t kDenseOverNodes = shaped("dense");

// Memory runs out on rank 1: it is one of two, owns the second shard of a node, or none.
constexpr NodeShape kFlat{2, 1};
constexpr NodeShape kOwner{4, 2};
constexpr NodeShape kNoShard{3, 2};

struct Call {
  const char* name;
  bool collective;
  std::function<sparsecollResult_t(int, sparsecollComm_t, sparsecollReducer_t)> run;
  NodeShape shape = kFlat;
  const sparsecollParams_t* older = &kTopK;  // a reducer that is there already
};

sparsecollResult_t create(const sparsecollParams_t& params, sparsecollComm_t comm, sparsecollReducer_t* reducer) {
  return sparsecollReducerCreate(reducer, kLength, sparsecollFloat32, &params, nullptr, comm);
}

// The refusals of a call end before what only tidies up after it.
sparsecollResult_t createOnly(const sparsecollParams_t& params, sparsecollComm_t comm) {
  sparsecollReducer_t reducer = nullptr;
  const sparsecollResult_t result = create(params, comm, &reducer);
  memory::refuseNone();
  return result == sparsecollSuccess ? sparsecollReducerDestroy(reducer) : result;
}

sparsecollResult_t addVectors(sparsecollComm_t comm, bool gather) {
  static float values[] = {1, 2, 3};
  static uint32_t indices[] = {9, 4, 7};
  static uint64_t count = 3;
  float outValues[8];
  uint32_t outIndices[8];
  uint64_t outCount = 0;
  sparsecollVector_t in{values, indices, &count, 3, kLength, sparsecollFloat32, sparsecollIndexU32, 0, 0, {}};
  sparsecollVector_t out{outValues, outIndices, &outCount, 8, kLength, sparsecollFloat32, sparsecollIndexU32, 0, 0, {}};
  if (gather) return sparsecollAllGatherVector(&in, &out, comm, nullptr);
  return sparsecollAllReduceVector(&in, &out, nullptr, comm, nullptr);
}

sparsecollResult_t selectSome(sparsecollComm_t comm) {
  static const float in[kLength] = {1, 2, 3};
  float values[30];
  uint32_t indices[30];
  uint64_t count = 0;
  sparsecollVector_t out{values, indices, &count, 30, kLength, sparsecollFloat32, sparsecollIndexU32, 0, 0, {}};
  return sparsecollSelect(in, kLength, sparsecollFloat32, &kTopK, &out, comm, nullptr);
}

sparsecollResult_t reduceOnce(sparsecollComm_t comm, const sparsecollParams_t& params) {
  float vector[kLength] = {1};
  return sparsecollAllReduce(vector, vector, kLength, sparsecollFloat32, &params, comm, nullptr);
}

sparsecollResult_t roundTrip(sparsecollReducer_t reducer) {
  static thread_local std::byte blob[4096];
  size_t bytes = sizeof blob;
  const sparsecollResult_t result = sparsecollReducerExport(reducer, blob, &bytes, nullptr);
  return result == sparsecollSuccess ? sparsecollReducerImport(reducer, blob, bytes, nullptr) : result;
}

const Call kCalls[] = {
    {"ReducerCreate topka", true, [](int, auto comm, auto) { return createOnly(kTopK, comm); }},
    {"ReducerCreate micro", true, [](int, auto comm, auto) { return createOnly(kMicro, comm); }},
    {"ReducerCreate auto", true, [](int, auto comm, auto) { return createOnly(kAuto, comm); }},
    {"AllReduce", true, [](int, auto comm, auto) { return reduceOnce(comm, kMicro); }},
    {"AllReduceVector", true, [](int, auto comm, auto) { return addVectors(comm, false); }},
    {"AllGatherVector", true, [](int, auto comm, auto) { return addVectors(comm, true); }},
    {"ReducerCreate over nodes", true, [](int, auto comm, auto) { return createOnly(kOverNodes, comm); }, kOwner},
    {"ReducerCreate over nodes, no shard", true, [](int, auto comm, auto) { return createOnly(kOverNodes, comm); },
     kNoShard},
    {"ReducerCreate of dense sums over nodes", true,
     [](int, auto comm, auto) { return createOnly(kDenseOverNodes, comm); }, kOwner},
    {"AllReduce over nodes", true, [](int, auto comm, auto) { return reduceOnce(comm, kOverNodes); }, kOwner},
    {"Export and Import over nodes", false, [](int, auto, auto reducer) { return roundTrip(reducer); }, kOwner,
     &kOverNodes},
    {"Export and Import over nodes, no shard", false, [](int, auto, auto reducer) { return roundTrip(reducer); },
     kNoShard, &kOverNodes},
    {"Select", false, [](int, auto comm, auto) { return selectSome(comm); }},
    {"Export and Import", false, [](int, auto, auto reducer) { return roundTrip(reducer); }},
    {"SetDensity", false, [](int, auto, auto reducer) { return sparsecollReducerSetDensity(reducer, 0.1); }},
};

struct Outcome {
  bool refused = false;                          // there was an i-th allocation
  sparsecollResult_t first = sparsecollSuccess;  // what the rank without memory got
  Results last;                                  // after what was called again
  Results next;                                  // a step of an older reducer
  bool clean() const {
    const Results good(last.size(), sparsecollSuccess);
    return (first == sparsecollSuccess || first == sparsecollOutOfMemory) && last == good && next == good;
  }
};

Outcome attempt(const Call& call, uint64_t skip) {
  const sparsecollConfig_t config = nodesOf(call.shape.perNode);
  Group group(call.shape.ranks, kLength, sparsecollFloat32, *call.older, nullptr, &config);
  group.fillRandom(1);
  Outcome outcome;
  outcome.last = group.each([&](int rank, sparsecollReducer_t reducer) {
    sparsecollComm_t const comm = group.ranks()[rank];
    if (rank != 1) {
      const sparsecollResult_t result = call.collective ? call.run(rank, comm, reducer) : sparsecollSuccess;
      return result == sparsecollMismatch ? call.run(rank, comm, reducer) : result;
    }
    memory::refuseAfter(skip);
    const sparsecollResult_t result = call.run(1, comm, reducer);
    outcome.refused = memory::refused();
    memory::refuseNone();
    outcome.first = result;
    return result == sparsecollOutOfMemory ? call.run(1, comm, reducer) : result;
  });
  outcome.next = group.step();
  return outcome;
}

}  // namespace

TEST_CASE("memory that runs out while a reducer is destroyed does not end the process") {
  if (!memory::canRefuse()) return;
  for (uint64_t skip = 0;; ++skip) {
    const Ranks ranks(1);
    sparsecollReducer_t reducer = nullptr;
    REQUIRE(create(kMicro, ranks[0], &reducer) == sparsecollSuccess);
    memory::refuseAfter(skip);
    const sparsecollResult_t result = sparsecollReducerDestroy(reducer);
    const bool refused = memory::refused();
    memory::refuseNone();
    CHECK(result == sparsecollSuccess);
    if (!refused) break;
  }
}

namespace {

void check(std::initializer_list<const char*> names) {
  if (!memory::canRefuse()) return;
  for (const Call& call : kCalls) {
    if (std::find(names.begin(), names.end(), std::string(call.name)) == names.end()) continue;
    uint64_t skip = 0;
    uint64_t harmful = 0;
    Outcome worst;
    uint64_t worstAt = 0;
    for (;; ++skip) {
      const Outcome outcome = attempt(call, skip);
      if (!outcome.refused) break;
      REQUIRE(skip < 1000);
      if (outcome.clean() || harmful++ != 0) continue;
      worst = outcome;
      worstAt = skip;
    }
    CAPTURE(call.name, skip, worstAt, worst.first, worst.last, worst.next);
    CHECK(harmful == 0);  // of skip allocations; worstAt: the first one whose refusal does harm
  }
}

}  // namespace

TEST_CASE("memory runs out in ReducerCreate") { check({"ReducerCreate topka", "ReducerCreate micro"}); }
TEST_CASE("memory runs out where reducers over nodes are made") {
  check({"ReducerCreate over nodes", "ReducerCreate over nodes, no shard", "ReducerCreate of dense sums over nodes",
         "AllReduce over nodes"});
}
TEST_CASE("memory runs out where auto makes its candidates") { check({"ReducerCreate auto"}); }
TEST_CASE("memory runs out in AllReduce") { check({"AllReduce"}); }
TEST_CASE("memory runs out in a collective on vectors") { check({"AllReduceVector", "AllGatherVector"}); }

namespace {

// Long frames, which travel apart from their envelopes. Over messages a sum has many of them under way.
void checkSteps(const NodeShape& shape, const char* name, const sparsecollParams_t& params) {
  if (!memory::canRefuse()) return;
  constexpr uint64_t kLong = 40000;
  const Results good = all(shape.ranks, sparsecollSuccess);
  const sparsecollConfig_t config = nodesOf(shape.perNode);
  for (uint64_t skip = 0;; ++skip) {
    CAPTURE(name, skip, shape.name());
    Group group(shape.ranks, kLong, sparsecollFloat32, params, nullptr, &config);
    REQUIRE(group.created() == good);
    group.fillRandom(1);
    Results first(good.size());
    bool refused = false;
    const auto step = [&](int rank) {
      const auto r = static_cast<size_t>(rank);
      return sparsecollReducerRun(group.reducer(rank), group.gradients[r].data(), group.outs[r].data(), nullptr);
    };
    const Results last = group.each([&](int rank, sparsecollReducer_t) {
      const auto r = static_cast<size_t>(rank);
      if (rank == 1) memory::refuseAfter(skip);
      first[r] = step(rank);
      if (rank == 1) refused = memory::refused();
      if (rank == 1) memory::refuseNone();
      const bool again = first[r] == (rank == 1 ? sparsecollOutOfMemory : sparsecollMismatch);
      return again ? step(rank) : first[r];
    });
    CAPTURE(first);
    CHECK(last == good);
    CHECK(group.outsEqual());
    CHECK(group.step() == good);
    if (!refused) break;
    REQUIRE(skip < 100);
  }
}

}  // namespace

TEST_CASE("memory runs out in a step") {
  for (const char* const name : {"dense", "topka", "gtopk"})
    checkSteps(kFlat, name, preset(name, name == std::string("dense") ? 0 : 0.2));
}

TEST_CASE("memory runs out in a step over nodes") {
  for (const NodeShape& shape : {kOwner, kNoShard})
    for (const char* const name : {"dense", "topka", "gtopk"}) checkSteps(shape, name, shaped(name));
}

TEST_CASE("memory runs out in a local call") {
  check({"Select", "Export and Import", "Export and Import over nodes", "Export and Import over nodes, no shard",
         "SetDensity"});
}

#ifdef SPARSECOLL_TEST_PAIRS
TEST_CASE("CommInitEngine without memory gives the engine back, and the other rank is not left waiting") {
  if (!memory::canRefuse()) return;
  sparsecollConfig_t config = SPARSECOLL_INIT(sparsecollConfig_t);
  config.initTimeoutMs = config.opTimeoutMs = 60000;
  { const Ranks first(2); }
  for (uint64_t skip = 0;; ++skip) {
    REQUIRE(skip < 1000);
    PairMesh mesh(2);
    sparsecollComm_t comms[2] = {nullptr, nullptr};
    Results results(2);
    bool refused = false;
    RankThreads::ofProcess().run(2, [&](int rank) {
      const auto r = static_cast<size_t>(rank);
      auto engine = std::make_unique<PairEngine>(rank, mesh.takeSockets(rank));
      const sparsecollEngine_t table = engine->table();
      if (rank == 1) memory::refuseAfter(skip);
      results[r] = sparsecollCommInitEngine(&comms[r], 2, rank, SPARSECOLL_HOST, &table, &config);
      if (rank == 1) refused = memory::refused();
      memory::refuseNone();
      if (results[r] == sparsecollSuccess) (void)engine.release();
    });
    CAPTURE(skip, results);
    if (results[1] != sparsecollSuccess) CHECK(results[1] == sparsecollOutOfMemory);
    CHECK((comms[1] == nullptr) == (results[1] != sparsecollSuccess));
    for (sparsecollComm_t comm : comms) (void)sparsecollCommDestroy(comm);
    if (!refused) {
      CHECK(results == all(2, sparsecollSuccess));
      break;
    }
  }
  CHECK(pairEngineMisuse() == "");
}
#else
TEST_CASE("CommInitAll without memory leaves the handles alone") {
  if (!memory::canRefuse()) return;
  // What is made once a process is there: the C library survives without memory for its note of what to destroy.
  { const Ranks first(1); }
  for (uint64_t skip = 0;; ++skip) {
    REQUIRE(skip < 1000);
    sparsecollComm_t comms[3] = {nullptr, nullptr, nullptr};
    memory::refuseAfter(skip);
    const sparsecollResult_t result = sparsecollCommInitAll(comms, 3, nullptr, nullptr);
    const bool refused = memory::refused();
    memory::refuseNone();
    if (refused) {
      CAPTURE(skip);
      CHECK(result == sparsecollOutOfMemory);
      CHECK((comms[0] == nullptr && comms[1] == nullptr && comms[2] == nullptr));
    }
    for (sparsecollComm_t comm : comms) (void)sparsecollCommDestroy(comm);
    if (!refused) break;
  }
}

namespace {

// A rank without memory calls again, and waits for the other one, which has to give up its first call before its
// second.
sparsecollResult_t untilMade(int rank, uint64_t skip, bool& refused,
                             const std::function<sparsecollResult_t(bool)>& call) {
  if (rank == 1) memory::refuseAfter(skip);
  sparsecollResult_t result = call(false);
  if (rank == 1) refused = memory::refused();
  memory::refuseNone();
  const bool again =
      rank == 1 ? result == sparsecollOutOfMemory || result == sparsecollTimeout
                : result == sparsecollTimeout || result == sparsecollMismatch || result == sparsecollPeerFailed;
  return again ? call(true) : result;
}

sparsecollConfig_t waiting(uint64_t initTimeoutMs) {
  sparsecollConfig_t config = SPARSECOLL_INIT(sparsecollConfig_t);
  config.initTimeoutMs = initTimeoutMs;
  return config;
}

using Regroup = std::function<sparsecollResult_t(int, sparsecollComm_t, bool patient, sparsecollComm_t*)>;

// The new communicators' reducers sum what the old ones' did.
void checkRegroup(const char* name, const Regroup& regroup) {
  if (!memory::canRefuse()) return;
  sparsecollConfig_t config = SPARSECOLL_INIT(sparsecollConfig_t);
  config.opTimeoutMs = 60000;
  for (uint64_t skip = 0;; ++skip) {
    REQUIRE(skip < 1000);
    bool refused = false;
    bool refusedToMove = false;
    Group group(2, kLength, sparsecollFloat32, kTopK, nullptr, &config);
    group.fillRandom(1);
    REQUIRE(group.step() == all(2, sparsecollSuccess));
    const Results results = group.each([&](int rank, sparsecollReducer_t reducer) {
      sparsecollComm_t made = nullptr;
      sparsecollReducer_t moved = nullptr;
      sparsecollResult_t result = untilMade(
          rank, skip, refused, [&](bool patient) { return regroup(rank, group.ranks()[rank], patient, &made); });
      if (result == sparsecollSuccess)
        result = untilMade(rank, skip, refusedToMove,
                           [&](bool) { return sparsecollReducerMove(reducer, made, &moved, nullptr); });
      std::vector<float> vector(kLength, 1.0f);
      if (result == sparsecollSuccess) result = sparsecollReducerRun(moved, vector.data(), vector.data(), nullptr);
      (void)sparsecollReducerDestroy(moved);
      (void)sparsecollCommDestroy(made);
      return result;
    });
    CAPTURE(name, skip, refused, refusedToMove);
    CHECK(results == all(2, sparsecollSuccess));
    if (!refused && !refusedToMove) break;
  }
}

}  // namespace

TEST_CASE("memory runs out in CommSplit, CommShrink and ReducerMove") {
  const sparsecollConfig_t hasty = waiting(500);
  const sparsecollConfig_t patient = waiting(60000);
  checkRegroup("CommSplit", [&](int rank, sparsecollComm_t comm, bool waits, sparsecollComm_t* made) {
    return sparsecollCommSplit(comm, 0, rank, made, waits ? &patient : &hasty);
  });
  checkRegroup("CommShrink", [&](int, sparsecollComm_t comm, bool waits, sparsecollComm_t* made) {
    return sparsecollCommShrink(comm, nullptr, 0, made, waits ? &patient : &hasty);
  });
}

namespace {

struct MoveCase {
  const char* name;
  NodeShape shape;
  const sparsecollParams_t* params;
  uint32_t scheduleSteps;  // 0: no schedule
};

const MoveCase kMoves[] = {
    {"flat", kFlat, &kTopK, 0},
    {"flat, with a schedule", kFlat, &kTopK, 9},
    {"auto, with a schedule", kFlat, &kAuto, 9},
    {"over nodes", kOwner, &kOverNodes, 0},
    {"over nodes, with a schedule", kOwner, &kOverNodes, 9},
    {"over nodes, no shard", kNoShard, &kOverNodes, 0},
    {"dense over nodes", kOwner, &kDenseOverNodes, 0},
};

struct MoveOutcome {
  Results first, last;
  bool refused = false;
  std::vector<Elements> outs;  // of a step after the move
};

// All ranks move to a communicator of all of them, of which rank 1 is told to find no memory after `skip` allocations.
MoveOutcome moveWith(const MoveCase& one, uint64_t skip) {
  const double density = 0.2;
  const sparsecollReducerConfig_t schedule = scheduled(density, one.scheduleSteps);
  sparsecollConfig_t config = nodesOf(one.shape.perNode);
  config.opTimeoutMs = 20000;
  Group group(one.shape.ranks, kLength, sparsecollFloat32, *one.params, one.scheduleSteps != 0 ? &schedule : nullptr,
              &config);
  group.fillIntegers(1);
  REQUIRE(group.step() == all(one.shape.ranks, sparsecollSuccess));
  MoveOutcome outcome;
  outcome.first = outcome.last = all(one.shape.ranks, sparsecollInternalError);
  group.each([&](int rank, sparsecollReducer_t reducer) {
    const auto r = static_cast<size_t>(rank);
    sparsecollComm_t comm = nullptr;
    sparsecollReducer_t moved = nullptr;
    if (sparsecollCommSplit(group.ranks()[rank], 0, rank, &comm, nullptr) != sparsecollSuccess)
      return sparsecollInternalError;
    if (rank == 1) memory::refuseAfter(skip);
    outcome.first[r] = sparsecollReducerMove(reducer, comm, &moved, nullptr);
    if (rank == 1) outcome.refused = memory::refused();
    if (rank == 1) memory::refuseNone();
    outcome.last[r] = outcome.first[r];
    if (outcome.first[r] == (rank == 1 ? sparsecollOutOfMemory : sparsecollMismatch))
      outcome.last[r] = sparsecollReducerMove(reducer, comm, &moved, nullptr);
    if (outcome.last[r] == sparsecollSuccess)
      outcome.last[r] = sparsecollReducerRun(moved, group.gradients[r].data(), group.outs[r].data(), nullptr);
    (void)sparsecollReducerDestroy(moved);
    (void)sparsecollCommDestroy(comm);
    return sparsecollSuccess;
  });
  outcome.outs = group.outs;
  return outcome;
}

}  // namespace

TEST_CASE("a ReducerMove without memory moves all ranks when it is called again") {
  if (!memory::canRefuse()) return;
  for (const MoveCase& one : kMoves) {
    CAPTURE(one.name);
    const Results good = all(one.shape.ranks, sparsecollSuccess);
    const MoveOutcome expected = moveWith(one, UINT64_MAX);
    REQUIRE(expected.last == good);
    for (uint64_t skip = 0;; ++skip) {
      const MoveOutcome outcome = moveWith(one, skip);
      CAPTURE(skip, outcome.first, outcome.last);
      REQUIRE(outcome.last == good);
      CHECK(outcome.outs == expected.outs);
      if (!outcome.refused) break;
      CHECK(outcome.first[1] == sparsecollOutOfMemory);
      REQUIRE(skip < 1000);
    }
  }
}

#endif

TEST_CASE("the text of the last error belongs to the last error") {
  if (!memory::canRefuse()) return;
  sparsecollReducer_t reducer = nullptr;
  uint64_t stale = 0;
  uint64_t other = 0;
  for (uint64_t skip = 0;; ++skip) {
    const Ranks ranks(1);
    REQUIRE(sparsecollCommGetAsyncError(ranks[0], nullptr) == sparsecollInvalidArgument);
    const std::string before = sparsecollGetLastError();
    memory::refuseAfter(skip);
    const sparsecollResult_t result = create(kTopK, ranks[0], &reducer);
    const bool refused = memory::refused();
    memory::refuseNone();
    if (result == sparsecollSuccess) break;
    REQUIRE(refused);
    stale += sparsecollGetLastError() == before ? 1 : 0;
    other += result != sparsecollOutOfMemory ? 1 : 0;
  }
  CHECK(stale == 0);
  CHECK(other == 0);
  CHECK(sparsecollReducerDestroy(reducer) == sparsecollSuccess);
}
