// Every function with every wrong pointer, handle and stream (T01, T02, T07): the right code, a text that names the
// call, no effect, and the next good call works.
#include "tests/support/catch.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "tests/support/folder.h"
#include "tests/support/group.h"
#include "tests/support/presets.h"

using namespace sparsecoll::test;

namespace {

constexpr uint64_t kLength = 64;
const sparsecollStream_t kNoStream = nullptr;
constexpr int kNoRank = -1;
constexpr auto kNoType = static_cast<sparsecollDataType_t>(99);

// One rank with all that calls need.
struct World {
  World() : group(1, kLength, sparsecollFloat32, preset("topka", 0.1)) {
    alone.allgather = [](void*, const void* send, void* recv, size_t bytesPerRank, uint64_t) {
      std::memcpy(recv, send, bytesPerRank);
      return 0;
    };
    nowhere.transport = sparsecollTransportTcp;
    nowhere.interfaceName = "none0";
    group.fillRandom(1);
    in.add(1, 1);
    in.add(5, 2);
    bytes = sizeof blob;
    (void)(sparsecollReducerExport(group.reducer(0), blob, &bytes, nullptr) == sparsecollSuccess);
  }
  sparsecollComm_t comm() const { return group.ranks()[0]; }
  sparsecollReducer_t reducer() const { return group.reducer(0); }
  void* gradient() { return group.gradients[0].data(); }
  void* out() { return group.outs[0].data(); }

  Group group;
  SparseVector in{sparsecollFloat32, kLength, 4};
  SparseVector other{sparsecollFloat32, kLength, 4};
  SparseVector sum{sparsecollFloat32, kLength, kLength};
  SparseVector wide{sparsecollFloat32, kLength, kLength, sparsecollIndexU64};
  sparsecollParams_t params = preset("topka", 0.1);
  sparsecollParams_t together = preset("exdyna", 0.1);
  sparsecollStats_t stats = SPARSECOLL_INIT(sparsecollStats_t);
  sparsecollReducerInfo_t info = SPARSECOLL_INIT(sparsecollReducerInfo_t);
  sparsecollFailure_t failure = SPARSECOLL_INIT(sparsecollFailure_t);
  sparsecollResult_t state = sparsecollSuccess;
  void* data = nullptr;
  uint64_t n = 0;
  sparsecollDataType_t type = sparsecollFloat32;
  int number = 0;
  Folder folder;
  std::string recorded = folder.path() / "flight.json";
  sparsecollUniqueId_t id{};
  sparsecollEngine_t engine = SPARSECOLL_INIT(sparsecollEngine_t);  // without a function
  sparsecollOob_t oob = SPARSECOLL_INIT(sparsecollOob_t);           // without its function
  sparsecollOob_t alone = SPARSECOLL_INIT(sparsecollOob_t);         // of one rank
  sparsecollConfig_t nowhere = SPARSECOLL_INIT(sparsecollConfig_t);
  sparsecollCommDetails_t details = SPARSECOLL_INIT(sparsecollCommDetails_t);
  sparsecollComm_t made = nullptr;
  alignas(8) std::byte blob[4096];
  size_t bytes = 0;
};

// A call whose handle and stream are given, all else good.
struct Call {
  const char* name;
  bool takesStream;
  std::function<sparsecollResult_t(World&, sparsecollComm_t, sparsecollReducer_t, sparsecollStream_t)> run;
};

#define CALL(name, takesStream, expression)                                                            \
  Call {                                                                                               \
    name, takesStream, [](World& w, sparsecollComm_t c, sparsecollReducer_t r, sparsecollStream_t s) { \
      (void)w, (void)c, (void)r, (void)s;                                                              \
      return expression;                                                                               \
    }                                                                                                  \
  }

const Call kCommCalls[] = {
    CALL("CommGetInfo", false, sparsecollCommGetInfo(c, &w.number, nullptr, nullptr)),
    CALL("CommGetDetails", false, sparsecollCommGetDetails(c, &w.details)),
    CALL("CommGetAsyncError", false, sparsecollCommGetAsyncError(c, &w.state)),
    CALL("CommGetFailure", false, sparsecollCommGetFailure(c, &w.failure)),
    CALL("CommGetPeerFailure", false, sparsecollCommGetPeerFailure(c, &w.failure)),
    CALL("CommDumpFlightRecorder", false, sparsecollCommDumpFlightRecorder(c, w.recorded.c_str())),
    CALL("CommWait", true, sparsecollCommWait(c, s, 1)),
    CALL("GetStats", false, sparsecollGetStats(c, &w.stats)),
    CALL("ResetStats", false, sparsecollResetStats(c)),
    CALL("AllReduce", true, sparsecollAllReduce(w.gradient(), w.out(), kLength, w.type, &w.params, c, s)),
    CALL("AllReduceVector", true, sparsecollAllReduceVector(w.in.view(), w.sum.view(), nullptr, c, s)),
    CALL("ReduceScatterVector", true, sparsecollReduceScatterVector(w.in.view(), w.sum.view(), nullptr, c, s)),
    CALL("AllGatherVector", true, sparsecollAllGatherVector(w.in.view(), w.sum.view(), c, s)),
    CALL("Select", true, sparsecollSelect(w.gradient(), kLength, w.type, &w.params, w.sum.view(), c, s)),
    CALL("Merge", true, sparsecollMerge(w.in.view(), w.other.view(), w.sum.view(), c, s)),
    CALL("ScatterAdd", true, sparsecollScatterAdd(w.in.view(), w.out(), kLength, 1, c, s)),
};

const Call kReducerCalls[] = {
    CALL("ReducerGetInfo", false, sparsecollReducerGetInfo(r, &w.info)),
    CALL("ReducerRun", true, sparsecollReducerRun(r, w.gradient(), w.out(), s)),
    CALL("ReducerRunSparse", true, sparsecollReducerRunSparse(r, w.gradient(), w.sum.view(), s)),
    CALL("ReducerSetDensity", false, sparsecollReducerSetDensity(r, 0.05)),
    CALL("ReducerSetScales", false, sparsecollReducerSetScales(r, 0.5, 2)),
    CALL("ReducerGiveBack", true, sparsecollReducerGiveBack(r, w.out(), 1, s)),
    CALL("ReducerGetStats", false, sparsecollReducerGetStats(r, &w.stats)),
    CALL("ReducerReset", true, sparsecollReducerReset(r, s)),
    CALL("ReducerFlush", true, sparsecollReducerFlush(r, w.out(), s)),
    CALL("ReducerGetResidual", false, sparsecollReducerGetResidual(r, &w.data, &w.n, &w.type)),
    CALL("ReducerExport", true, sparsecollReducerExport(r, w.blob, &w.bytes, s)),
    CALL("ReducerImport", true, sparsecollReducerImport(r, w.blob, w.bytes, s)),
    CALL("ReducerImportFrom", true, sparsecollReducerImportFrom(r, w.blob, w.bytes, 1, s)),
};

// One good call but for what the name says.
struct Bad {
  const char* name;
  std::function<sparsecollResult_t(World&)> run;
};

#define BAD(name, expression)                                  \
  Bad {                                                        \
    name, []([[maybe_unused]] World& w) { return expression; } \
  }

const Bad kNulls[] = {
    BAD("BackendAvailable: available", sparsecollBackendAvailable(0, 0, nullptr)),
    BAD("CommInitAll: comms", sparsecollCommInitAll(nullptr, 1, nullptr, nullptr)),
    BAD("CommGetDetails: details", sparsecollCommGetDetails(w.comm(), nullptr)),
    BAD("CommGetAsyncError: state", sparsecollCommGetAsyncError(w.comm(), nullptr)),
    BAD("CommGetFailure: failure", sparsecollCommGetFailure(w.comm(), nullptr)),
    BAD("CommGetPeerFailure: failure", sparsecollCommGetPeerFailure(w.comm(), nullptr)),
    BAD("CommDumpFlightRecorder: path", sparsecollCommDumpFlightRecorder(w.comm(), nullptr)),
    BAD("GetStats: stats", sparsecollGetStats(w.comm(), nullptr)),
    BAD("AllReduce: in", sparsecollAllReduce(nullptr, w.out(), kLength, w.type, &w.params, w.comm(), kNoStream)),
    BAD("AllReduce: out", sparsecollAllReduce(w.gradient(), nullptr, kLength, w.type, &w.params, w.comm(), kNoStream)),
    BAD("AllReduce: params", sparsecollAllReduce(w.gradient(), w.out(), kLength, w.type, nullptr, w.comm(), kNoStream)),
    BAD("AllReduceVector: in", sparsecollAllReduceVector(nullptr, w.sum.view(), nullptr, w.comm(), kNoStream)),
    BAD("AllReduceVector: out", sparsecollAllReduceVector(w.in.view(), nullptr, nullptr, w.comm(), kNoStream)),
    BAD("ReduceScatterVector: in", sparsecollReduceScatterVector(nullptr, w.sum.view(), nullptr, w.comm(), kNoStream)),
    BAD("ReduceScatterVector: out", sparsecollReduceScatterVector(w.in.view(), nullptr, nullptr, w.comm(), kNoStream)),
    BAD("AllGatherVector: in", sparsecollAllGatherVector(nullptr, w.sum.view(), w.comm(), kNoStream)),
    BAD("AllGatherVector: out", sparsecollAllGatherVector(w.in.view(), nullptr, w.comm(), kNoStream)),
    BAD("Select: in", sparsecollSelect(nullptr, kLength, w.type, &w.params, w.sum.view(), w.comm(), kNoStream)),
    BAD("Select: params", sparsecollSelect(w.gradient(), kLength, w.type, nullptr, w.sum.view(), w.comm(), kNoStream)),
    BAD("Select: out", sparsecollSelect(w.gradient(), kLength, w.type, &w.params, nullptr, w.comm(), kNoStream)),
    BAD("Merge: a", sparsecollMerge(nullptr, w.other.view(), w.sum.view(), w.comm(), kNoStream)),
    BAD("Merge: b", sparsecollMerge(w.in.view(), nullptr, w.sum.view(), w.comm(), kNoStream)),
    BAD("Merge: out", sparsecollMerge(w.in.view(), w.other.view(), nullptr, w.comm(), kNoStream)),
    BAD("ScatterAdd: in", sparsecollScatterAdd(nullptr, w.out(), kLength, 1, w.comm(), kNoStream)),
    BAD("ScatterAdd: dense", sparsecollScatterAdd(w.in.view(), nullptr, kLength, 1, w.comm(), kNoStream)),
    BAD("Preset: name", sparsecollPreset(nullptr, &w.params)),
    BAD("Preset: params", sparsecollPreset("topka", nullptr)),
    BAD("ReducerCreate: reducer", sparsecollReducerCreate(nullptr, kLength, w.type, &w.params, nullptr, w.comm())),
    BAD("ReducerCreate: params", sparsecollReducerCreate(reinterpret_cast<sparsecollReducer_t*>(&w.data), kLength,
                                                         w.type, nullptr, nullptr, w.comm())),
    BAD("ReducerGetInfo: info", sparsecollReducerGetInfo(w.reducer(), nullptr)),
    BAD("ReducerRun: gradient", sparsecollReducerRun(w.reducer(), nullptr, w.out(), kNoStream)),
    BAD("ReducerRun: out", sparsecollReducerRun(w.reducer(), w.gradient(), nullptr, kNoStream)),
    BAD("ReducerRunSparse: gradient", sparsecollReducerRunSparse(w.reducer(), nullptr, w.sum.view(), kNoStream)),
    BAD("ReducerRunSparse: out", sparsecollReducerRunSparse(w.reducer(), w.gradient(), nullptr, kNoStream)),
    BAD("ReducerGiveBack: out", sparsecollReducerGiveBack(w.reducer(), nullptr, 1, kNoStream)),
    BAD("ReducerGetStats: stats", sparsecollReducerGetStats(w.reducer(), nullptr)),
    BAD("ReducerFlush: dense", sparsecollReducerFlush(w.reducer(), nullptr, kNoStream)),
    BAD("ReducerGetResidual: data", sparsecollReducerGetResidual(w.reducer(), nullptr, &w.n, &w.type)),
    BAD("ReducerGetResidual: n", sparsecollReducerGetResidual(w.reducer(), &w.data, nullptr, &w.type)),
    BAD("ReducerGetResidual: type", sparsecollReducerGetResidual(w.reducer(), &w.data, &w.n, nullptr)),
    BAD("ReducerExport: bytes", sparsecollReducerExport(w.reducer(), w.blob, nullptr, kNoStream)),
    BAD("ReducerImport: blob", sparsecollReducerImport(w.reducer(), nullptr, w.bytes, kNoStream)),
    BAD("ReducerImportFrom: blob", sparsecollReducerImportFrom(w.reducer(), nullptr, w.bytes, 0, kNoStream)),
};

const Bad kValues[] = {
    BAD("GetUniqueId: id", sparsecollGetUniqueId(nullptr, nullptr)),
    BAD("CommInitRank: comm", sparsecollCommInitRank(nullptr, 1, &w.id, 0, 0, nullptr)),
    BAD("CommInitRank: id", sparsecollCommInitRank(&w.made, 1, nullptr, 0, 0, nullptr)),
    BAD("CommInitRank: 0 ranks", sparsecollCommInitRank(&w.made, 0, &w.id, 0, 0, nullptr)),
    BAD("CommInitRank: 257 ranks", sparsecollCommInitRank(&w.made, 257, &w.id, 0, 0, nullptr)),
    BAD("CommInitRank: rank 1 of 1", sparsecollCommInitRank(&w.made, 1, &w.id, 1, 0, nullptr)),
    BAD("CommInitRank: device -3", sparsecollCommInitRank(&w.made, 1, &w.id, 0, -3, nullptr)),
    BAD("CommInitRank: bytes that are no id", sparsecollCommInitRank(&w.made, 1, &w.id, 0, SPARSECOLL_HOST, nullptr)),
    BAD("CommInitEnv: comm", sparsecollCommInitEnv(nullptr, SPARSECOLL_HOST, nullptr)),
    BAD("CommInitEnv: device -3", sparsecollCommInitEnv(&w.made, -3, nullptr)),
    BAD("CommInitOob: comm", sparsecollCommInitOob(nullptr, 1, 0, SPARSECOLL_HOST, &w.oob, nullptr)),
    BAD("CommInitOob: device -3", sparsecollCommInitOob(&w.made, 1, 0, -3, &w.oob, nullptr)),
    BAD("CommInitOob: an interface that is not there",
        sparsecollCommInitOob(&w.made, 1, 0, SPARSECOLL_HOST, &w.alone, &w.nowhere)),
    BAD("CommInitOob: an oob without its function", sparsecollCommInitOob(&w.made, 1, 0, 0, &w.oob, nullptr)),
    BAD("CommInitEngine: comm", sparsecollCommInitEngine(nullptr, 1, 0, SPARSECOLL_HOST, &w.engine, nullptr)),
    BAD("CommInitEngine: 0 ranks", sparsecollCommInitEngine(&w.made, 0, 0, SPARSECOLL_HOST, &w.engine, nullptr)),
    BAD("CommInitEngine: 1025 ranks", sparsecollCommInitEngine(&w.made, 1025, 0, SPARSECOLL_HOST, &w.engine, nullptr)),
    BAD("CommInitEngine: rank 1 of 1", sparsecollCommInitEngine(&w.made, 1, 1, SPARSECOLL_HOST, &w.engine, nullptr)),
    BAD("CommInitEngine: rank -1", sparsecollCommInitEngine(&w.made, 1, -1, SPARSECOLL_HOST, &w.engine, nullptr)),
    BAD("CommInitEngine: device -3", sparsecollCommInitEngine(&w.made, 1, 0, -3, &w.engine, nullptr)),
    BAD("CommInitEngine: engine", sparsecollCommInitEngine(&w.made, 1, 0, SPARSECOLL_HOST, nullptr, nullptr)),
    BAD("CommInitEngine: an engine without functions",
        sparsecollCommInitEngine(&w.made, 1, 0, SPARSECOLL_HOST, &w.engine, nullptr)),
    BAD("CommInitNccl: comm", sparsecollCommInitNccl(nullptr, reinterpret_cast<ncclComm*>(&w.id), 0, nullptr)),
    BAD("CommInitNccl: ncclComm", sparsecollCommInitNccl(&w.made, nullptr, 0, nullptr)),
    BAD("CommInitNccl: takeSplit 2", sparsecollCommInitNccl(&w.made, reinterpret_cast<ncclComm*>(&w.id), 2, nullptr)),
    BAD("CommDumpFlightRecorder: empty path", sparsecollCommDumpFlightRecorder(w.comm(), "")),
    BAD("CommDumpFlightRecorder: a folder", sparsecollCommDumpFlightRecorder(w.comm(), w.folder.path().c_str())),
    BAD("CommInitAll: 0 ranks",
        sparsecollCommInitAll(reinterpret_cast<sparsecollComm_t*>(&w.data), 0, nullptr, nullptr)),
    BAD("CommInitAll: -1 ranks",
        sparsecollCommInitAll(reinterpret_cast<sparsecollComm_t*>(&w.data), -1, nullptr, nullptr)),
    BAD("CommInitAll: 1025 ranks",
        sparsecollCommInitAll(reinterpret_cast<sparsecollComm_t*>(&w.data), 1025, nullptr, nullptr)),
    BAD("BackendAvailable: backend -1", sparsecollBackendAvailable(-1, 0, &w.number)),
    BAD("BackendAvailable: backend 3", sparsecollBackendAvailable(3, 0, &w.number)),
    BAD("BackendAvailable: transport 7", sparsecollBackendAvailable(0, 7, &w.number)),
    BAD("BackendAvailable: transport max", sparsecollBackendAvailable(0, 0x7fffffff, &w.number)),
    BAD("Preset: no such name", sparsecollPreset("no such method", &w.params)),
    BAD("Preset: empty name", sparsecollPreset("", &w.params)),
    BAD("ReducerCreate: n 0", sparsecollReducerCreate(reinterpret_cast<sparsecollReducer_t*>(&w.data), 0, w.type,
                                                      &w.params, nullptr, w.comm())),
    BAD("CommSplit: newComm", sparsecollCommSplit(w.comm(), 0, 0, nullptr, nullptr)),
    BAD("CommShrink: newComm", sparsecollCommShrink(w.comm(), nullptr, 0, nullptr, nullptr)),
    BAD("CommShrink: rank -1 of 1", sparsecollCommShrink(w.comm(), &kNoRank, 1, &w.made, nullptr)),
    BAD("CommGetDetails: details at an odd address",
        sparsecollCommGetDetails(w.comm(), reinterpret_cast<sparsecollCommDetails_t*>(w.blob + 1))),
    BAD("Select: type 99",
        sparsecollSelect(w.gradient(), kLength, kNoType, &w.params, w.sum.view(), w.comm(), kNoStream)),
    BAD("Select: type is not out.dataType",
        sparsecollSelect(w.gradient(), kLength, sparsecollFloat64, &w.params, w.sum.view(), w.comm(), kNoStream)),
    BAD("Select: n 0", sparsecollSelect(w.gradient(), 0, w.type, &w.params, w.sum.view(), w.comm(), kNoStream)),
    BAD("Select: n is not out.length",
        sparsecollSelect(w.gradient(), kLength - 1, w.type, &w.params, w.sum.view(), w.comm(), kNoStream)),
    BAD("ScatterAdd: n is not in.length",
        sparsecollScatterAdd(w.in.view(), w.out(), kLength - 1, 1, w.comm(), kNoStream)),
    BAD("ScatterAdd: scale nan",
        sparsecollScatterAdd(w.in.view(), w.out(), kLength, std::nan(""), w.comm(), kNoStream)),
    BAD("ReducerSetScales: 0 as Float32", sparsecollReducerSetScales(w.reducer(), 1e-50, 1)),
    BAD("ReducerSetScales: Inf as Float32", sparsecollReducerSetScales(w.reducer(), 1, -1e50)),
    BAD("ReducerGiveBack: factor that is 0 as Float32",
        sparsecollReducerGiveBack(w.reducer(), w.out(), 1e-50, kNoStream)),
    BAD("ReducerImportFrom: merge 3", sparsecollReducerImportFrom(w.reducer(), w.blob, w.bytes, 3, kNoStream)),
    BAD("ReducerImportFrom: merge -1", sparsecollReducerImportFrom(w.reducer(), w.blob, w.bytes, -1, kNoStream)),
};

const Bad kUnsupported[] = {
    BAD("Select: 2^32 elements",
        sparsecollSelect(w.gradient(), uint64_t{1} << 32, w.type, &w.params, w.sum.view(), w.comm(), kNoStream)),
    BAD("Select: a selector that asks the other ranks",
        sparsecollSelect(w.gradient(), kLength, w.type, &w.together, w.sum.view(), w.comm(), kNoStream)),
    BAD("ReducerRunSparse: 64-bit indices",
        sparsecollReducerRunSparse(w.reducer(), w.gradient(), w.wide.view(), kNoStream)),
};

std::vector<std::byte> stateOf(World& world) {
  std::vector<std::byte> state(4096);
  size_t bytes = state.size();
  if (sparsecollReducerExport(world.reducer(), state.data(), &bytes, nullptr) != sparsecollSuccess) return {};
  state.resize(bytes);
  return state;
}

// A wrong call leaves state and outputs alone, says which call it was, and the next step works.
void checkHarmless(World& world, const char* name, sparsecollResult_t expected,
                   const std::function<sparsecollResult_t()>& wrong) {
  CAPTURE(name);
  const std::vector<std::byte> before = stateOf(world);
  const Elements out = world.group.outs[0];
  void* const data = world.data;
  CHECK(wrong() == expected);
  const std::string text = sparsecollGetLastError();
  const std::string call = std::string(name).substr(0, std::string(name).find(':'));
  CHECK_THAT(text, Catch::StartsWith(call + ":"));
  CHECK(text.size() > call.size() + 5);
  CHECK((stateOf(world) == before));
  CHECK((world.group.outs[0] == out));
  CHECK(world.data == data);
  REQUIRE(world.group.step() == all(1, sparsecollSuccess));
}

}  // namespace

TEST_CASE("NULL for each pointer") {
  World world;
  for (const Bad& bad : kNulls)
    checkHarmless(world, bad.name, sparsecollInvalidArgument, [&] { return bad.run(world); });
}

TEST_CASE("numbers and names that are out of range") {
  World world;
  for (const Bad& bad : kValues)
    checkHarmless(world, bad.name, sparsecollInvalidArgument, [&] { return bad.run(world); });
}

TEST_CASE("what this version does not do") {
  World world;
  for (const Bad& bad : kUnsupported)
    checkHarmless(world, bad.name, sparsecollUnsupported, [&] { return bad.run(world); });
}

TEST_CASE("a reducer that has no sparse sum leaves the vector for it alone") {
  sparsecollParams_t adds = preset("topka", 0.1);
  adds.flags = SPARSECOLL_ACCUMULATE;
  for (const auto& [params, expected] :
       {std::pair{preset("dense", 0), sparsecollUnsupported}, std::pair{adds, sparsecollInvalidArgument}}) {
    Group group(1, kLength, sparsecollFloat32, params);
    REQUIRE(group.created() == all(1, sparsecollSuccess));
    SparseVector sum(sparsecollFloat32, kLength, kLength);
    sum.add(3, 1);
    CHECK(sparsecollReducerRunSparse(group.reducer(0), group.gradients[0].data(), sum.view(), nullptr) == expected);
    CHECK(sum.count() == 1);
    CHECK(group.step() == all(1, sparsecollSuccess));
  }
}

TEST_CASE("the good calls of the tables are good") {
  World world;
  for (const Call& call : kCommCalls) {
    CAPTURE(call.name);
    CHECK(call.run(world, world.comm(), nullptr, nullptr) == sparsecollSuccess);
  }
  for (const Call& call : kReducerCalls) {
    CAPTURE(call.name);
    world.bytes = call.name == std::string("ReducerExport") ? sizeof world.blob : world.bytes;
    CHECK(call.run(world, nullptr, world.reducer(), nullptr) == sparsecollSuccess);
  }
}

TEST_CASE("a stream on host communicators") {
  World world;
  const auto stream = reinterpret_cast<sparsecollStream_t>(&world);
  for (const Call& call : kCommCalls)
    if (call.takesStream)
      checkHarmless(world, call.name, sparsecollInvalidArgument,
                    [&] { return call.run(world, world.comm(), nullptr, stream); });
  for (const Call& call : kReducerCalls)
    if (call.takesStream)
      checkHarmless(world, call.name, sparsecollInvalidArgument,
                    [&] { return call.run(world, nullptr, world.reducer(), stream); });
}

TEST_CASE("handles that are NULL, destroyed, of the other kind, or nothing at all") {
  World world;
  Ranks gone(1);
  Reducers goneReducers(gone, kLength, sparsecollFloat32, world.params);
  const sparsecollComm_t deadComm = gone[0];
  sparsecollReducer_t deadReducer = nullptr;
  REQUIRE(sparsecollReducerCreate(&deadReducer, kLength, sparsecollFloat32, &world.params, nullptr, deadComm) ==
          sparsecollSuccess);
  REQUIRE(sparsecollReducerDestroy(deadReducer) == sparsecollSuccess);
  REQUIRE(sparsecollCommDestroy(gone.release(0)) == sparsecollSuccess);
  int local = 0;
  const auto comm = [](const void* value) { return reinterpret_cast<sparsecollComm_t>(const_cast<void*>(value)); };
  const auto reducer = [](const void* value) {
    return reinterpret_cast<sparsecollReducer_t>(const_cast<void*>(value));
  };
  const auto* const odd = reinterpret_cast<const void*>(~uintptr_t{0});

  for (const Call& call : kCommCalls)
    for (const sparsecollComm_t handle : {comm(nullptr), deadComm, comm(world.reducer()), comm(&local), comm(odd)})
      checkHarmless(world, call.name, handle == nullptr ? sparsecollInvalidArgument : sparsecollInvalidUsage,
                    [&] { return call.run(world, handle, nullptr, nullptr); });
  for (const Call& call : kReducerCalls)
    for (const sparsecollReducer_t handle :
         {reducer(nullptr), deadReducer, reducer(world.comm()), reducer(&local), reducer(odd)})
      checkHarmless(world, call.name, handle == nullptr ? sparsecollInvalidArgument : sparsecollInvalidUsage,
                    [&] { return call.run(world, nullptr, handle, nullptr); });
  CHECK(sparsecollReducerCreate(&deadReducer, kLength, sparsecollFloat32, &world.params, nullptr, deadComm) ==
        sparsecollInvalidUsage);
  CHECK(sparsecollCommAbort(deadComm) == sparsecollInvalidUsage);
  CHECK(sparsecollCommAbort(nullptr) == sparsecollInvalidArgument);
  CHECK(sparsecollCommAbort(comm(world.reducer())) == sparsecollInvalidUsage);
}

TEST_CASE("destroying nothing, twice, and the wrong kind") {
  World world;
  CHECK(sparsecollCommDestroy(nullptr) == sparsecollSuccess);
  CHECK(sparsecollReducerDestroy(nullptr) == sparsecollSuccess);
  CHECK(sparsecollCommDestroy(reinterpret_cast<sparsecollComm_t>(world.reducer())) == sparsecollInvalidUsage);
  CHECK(sparsecollReducerDestroy(reinterpret_cast<sparsecollReducer_t>(world.comm())) == sparsecollInvalidUsage);
  Ranks ranks(1);
  const sparsecollComm_t comm = ranks.release(0);
  sparsecollReducer_t reducer = nullptr;
  REQUIRE(sparsecollReducerCreate(&reducer, 8, sparsecollFloat32, &world.params, nullptr, comm) == sparsecollSuccess);
  CHECK(sparsecollReducerDestroy(reducer) == sparsecollSuccess);
  CHECK(sparsecollReducerDestroy(reducer) == sparsecollInvalidUsage);
  CHECK(sparsecollCommDestroy(comm) == sparsecollSuccess);
  CHECK(sparsecollCommDestroy(comm) == sparsecollInvalidUsage);
  CHECK(world.group.step() == all(1, sparsecollSuccess));
}

TEST_CASE("functions without an error code always answer") {
  CHECK(sparsecollGetVersion() == SPARSECOLL_VERSION_CODE);
  CHECK_THAT(sparsecollGetBuildInfo(), Catch::StartsWith("{") && Catch::EndsWith("}") && Catch::Contains("\"isa\""));
  for (const int code : {0, 1, 2, 3, 4, 5, 6, 7, 8, 16, 17, 18, 19, 20, 32, 33, 34, 35})
    CHECK(std::string(sparsecollGetErrorString(static_cast<sparsecollResult_t>(code))) != "unknown result");
  for (const int code : {9, 36, 255, 0x7fffffff})
    CHECK(std::string(sparsecollGetErrorString(static_cast<sparsecollResult_t>(code))) == "unknown result");
  const std::vector<std::string> names = allPresets();
  for (const char* const name : {"dense", "topka", "threshold", "micro"})
    CHECK(std::count(names.begin(), names.end(), name) == 1);
  CHECK(sparsecollPresetName(0xffffffffu) == nullptr);
  std::string fresh = "x";
  std::thread([&] { fresh = sparsecollGetLastError(); }).join();
  CHECK(fresh.empty());
  int available = -1;
  CHECK(sparsecollBackendAvailable(sparsecollBackendHost, sparsecollTransportThreads, &available) == sparsecollSuccess);
  CHECK(available == 1);
  for (const auto& [backend, transport] : {std::pair{sparsecollBackendCuda, sparsecollTransportNccl},
                                           std::pair{sparsecollBackendHost, sparsecollTransportSimulated}}) {
    available = -1;
    CHECK(sparsecollBackendAvailable(backend, transport, &available) == sparsecollSuccess);
    CHECK(available == 0);
  }
}

TEST_CASE("a rank that is none is what the error names, whatever else is wrong") {
  World world;
  for (const int rank : {-1, 1}) {
    const std::string named = "rank is " + std::to_string(rank) + " of 1";
    CHECK(sparsecollCommInitRank(&world.made, 1, &world.id, rank, SPARSECOLL_HOST, nullptr) ==
          sparsecollInvalidArgument);
    CHECK_THAT(std::string(sparsecollGetLastError()), Catch::Contains(named));
    CHECK(sparsecollCommInitEngine(&world.made, 1, rank, SPARSECOLL_HOST, &world.engine, nullptr) ==
          sparsecollInvalidArgument);
    CHECK_THAT(std::string(sparsecollGetLastError()), Catch::Contains(named));
  }
}

TEST_CASE("a device that is none of the three kinds is refused with the names of those that are") {
  World world;
  const auto text = [] { return std::string(sparsecollGetLastError()); };
  const auto checkNames = [&](const char* argument) {
    CHECK(text().find(std::string(argument) + " is -3") != std::string::npos);
    CHECK_THAT(text(), Catch::Contains("SPARSECOLL_HOST (-1)") && Catch::Contains("SPARSECOLL_CURRENT_DEVICE (-2)"));
  };
  CHECK(sparsecollCommInitRank(&world.made, 1, &world.id, 0, -3, nullptr) == sparsecollInvalidArgument);
  checkNames("device");
  CHECK(sparsecollCommInitOob(&world.made, 1, 0, -3, &world.oob, nullptr) == sparsecollInvalidArgument);
  checkNames("device");
  CHECK(sparsecollCommInitEngine(&world.made, 1, 0, -3, &world.engine, nullptr) == sparsecollInvalidArgument);
  checkNames("device");
  sparsecollComm_t comms[2] = {};
  const int third[] = {SPARSECOLL_HOST, -3};
  CHECK(sparsecollCommInitAll(comms, 2, third, nullptr) == sparsecollInvalidArgument);
  checkNames("devices[1]");
  const int mixed[] = {SPARSECOLL_HOST, 0};
  CHECK(sparsecollCommInitAll(comms, 2, mixed, nullptr) == sparsecollInvalidArgument);
  CHECK_THAT(text(), Catch::Contains("devices[1] is 0, devices[0] is -1") && Catch::Contains("SPARSECOLL_HOST"));
  CHECK((comms[0] == nullptr && comms[1] == nullptr && world.made == nullptr));
}

TEST_CASE("SPARSECOLL_HOST for every rank is host memory, and the communicator says so") {
  const int places[] = {SPARSECOLL_HOST, SPARSECOLL_HOST};
  sparsecollComm_t comms[2] = {};
  auto config = SPARSECOLL_INIT(sparsecollConfig_t);
  config.backend = sparsecollBackendCuda;
  CHECK(sparsecollCommInitAll(comms, 2, places, &config) == sparsecollInvalidArgument);
  CHECK_THAT(sparsecollGetLastError(), Catch::Contains("SPARSECOLL_HOST"));
  config.backend = sparsecollBackendHost;
  REQUIRE(sparsecollCommInitAll(comms, 2, places, &config) == sparsecollSuccess);
  for (int rank = 0; rank < 2; ++rank) {
    auto details = SPARSECOLL_INIT(sparsecollCommDetails_t);
    REQUIRE(sparsecollCommGetDetails(comms[rank], &details) == sparsecollSuccess);
    CHECK(details.rank == rank);
    CHECK(details.nRanks == 2);
    CHECK(details.device == SPARSECOLL_HOST);
    CHECK(details.transport == sparsecollTransportThreads);
    CHECK(std::string(details.reason) == "the only engine of the call that made it");
    int device = 0;
    CHECK(sparsecollCommGetInfo(comms[rank], nullptr, nullptr, &device) == sparsecollSuccess);
    CHECK(device == SPARSECOLL_HOST);
  }
  for (const sparsecollComm_t comm : comms) CHECK(sparsecollCommDestroy(comm) == sparsecollSuccess);
}

TEST_CASE("n = 0 allows NULL on all ranks") {
  const Ranks ranks(8);
  const sparsecollParams_t params = preset("topka", 0.1);
  CHECK(onEach(ranks, [&](int, sparsecollComm_t comm) {
          return sparsecollAllReduce(nullptr, nullptr, 0, sparsecollFloat32, &params, comm, nullptr);
        }) == all(8, sparsecollSuccess));
}
