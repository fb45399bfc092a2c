// Struct heads and every field of the structs that come in (T05, T06, T10).
#include "tests/support/catch.h"

#include <functional>

#include "tests/support/group.h"

using namespace sparsecoll::test;

namespace {

constexpr uint64_t kLength = 64;

// Room for a struct of a newer header, with marks behind it.
template <class T>
struct Roomy {
  T value = SPARSECOLL_INIT(T);
  unsigned char tail[128] = {};
};

struct HeadRow {
  const char* name;
  std::ptrdiff_t sizeChange;  // kWhole + size: that size itself
  uint32_t magic;
  unsigned char tail;  // content of byte 50 behind the struct
  sparsecollResult_t in, out;
};
constexpr std::ptrdiff_t kWhole = 1000000;
constexpr HeadRow kHeads[] = {
    {"as filled by INIT", 0, SPARSECOLL_MAGIC, 0, sparsecollSuccess, sparsecollSuccess},
    {"size 0", kWhole + 0, SPARSECOLL_MAGIC, 0, sparsecollInvalidArgument, sparsecollInvalidArgument},
    {"size 15", kWhole + 15, SPARSECOLL_MAGIC, 0, sparsecollInvalidArgument, sparsecollInvalidArgument},
    {"the largest size", kWhole - 1000001, SPARSECOLL_MAGIC, 0, sparsecollInvalidArgument, sparsecollInvalidArgument},
    {"64 more, zeros", 64, SPARSECOLL_MAGIC, 0, sparsecollSuccess, sparsecollSuccess},
    {"64 more, not zero", 64, SPARSECOLL_MAGIC, 1, sparsecollUnsupported, sparsecollSuccess},
    {"not zero behind the size", 50, SPARSECOLL_MAGIC, 1, sparsecollSuccess, sparsecollSuccess},
    {"magic 0", 0, 0, 0, sparsecollInvalidArgument, sparsecollInvalidArgument},
    {"magic in the other order", 0, 0x31435053u, 0, sparsecollInvalidArgument, sparsecollInvalidArgument},
};

template <class T>
void setHead(Roomy<T>& roomy, const HeadRow& row) {
  if (row.sizeChange == -1)
    roomy.value.structSize = ~size_t{0};
  else if (row.sizeChange >= kWhole)
    roomy.value.structSize = static_cast<size_t>(row.sizeChange - kWhole);
  else
    roomy.value.structSize = sizeof(T) + static_cast<size_t>(row.sizeChange);
  roomy.value.magic = row.magic;
  roomy.tail[50] = row.tail;
}

template <class T>
using Use = std::function<sparsecollResult_t(T*)>;

template <class T>
void checkIn(const char* what, const std::function<void(T&)>& fill, const Use<T>& use) {
  for (const HeadRow& row : kHeads) {
    CAPTURE(what, row.name);
    Roomy<T> roomy;
    fill(roomy.value);
    setHead(roomy, row);
    CHECK(use(&roomy.value) == row.in);
  }
}

template <class T>
void checkOut(const char* what, const Use<T>& use) {
  for (const HeadRow& row : kHeads) {
    CAPTURE(what, row.name);
    Roomy<T> roomy;
    std::memset(roomy.tail, 0x5a, sizeof roomy.tail);
    setHead(roomy, row);
    const Roomy<T> before = roomy;
    CHECK(use(&roomy.value) == row.out);
    CHECK(std::memcmp(roomy.tail, before.tail, sizeof roomy.tail) == 0);
    CHECK(roomy.value.structSize == before.value.structSize);
    if (row.out != sparsecollSuccess) CHECK(std::memcmp(&roomy, &before, sizeof roomy) == 0);
  }
  // An older caller's struct ends earlier: what lies behind it is not ours.
  for (const size_t bytes : {size_t{16}, sizeof(T) - 8, sizeof(T) - 1}) {
    CAPTURE(what, bytes);
    Roomy<T> roomy;
    auto* const raw = reinterpret_cast<unsigned char*>(&roomy);
    std::memset(raw + 16, 0x5a, sizeof(T) - 16);
    roomy.value.structSize = bytes;
    (void)(use(&roomy.value) == sparsecollSuccess);
    bool untouched = true;
    for (size_t i = bytes; i < sizeof(T); ++i) untouched = untouched && raw[i] == 0x5a;
    CHECK(untouched);
  }
}

sparsecollResult_t create(const Ranks& ranks, const sparsecollParams_t* params,
                          const sparsecollReducerConfig_t* config = nullptr, uint64_t n = kLength,
                          sparsecollDataType_t type = sparsecollFloat32) {
  sparsecollReducer_t reducer = nullptr;
  const sparsecollResult_t result = sparsecollReducerCreate(&reducer, n, type, params, config, ranks[0]);
  if (result != sparsecollSuccess && reducer != nullptr) return sparsecollInternalError;  // "*reducer is untouched"
  return result == sparsecollSuccess ? sparsecollReducerDestroy(reducer) : result;
}

sparsecollResult_t init(const sparsecollConfig_t* config) {
  sparsecollComm_t comms[2] = {nullptr, nullptr};
  const sparsecollResult_t result = sparsecollCommInitAll(comms, 2, nullptr, config);
  if (result != sparsecollSuccess) return comms[0] == nullptr && comms[1] == nullptr ? result : sparsecollInternalError;
  const sparsecollResult_t first = sparsecollCommDestroy(comms[0]);
  return first == sparsecollSuccess ? sparsecollCommDestroy(comms[1]) : first;
}

template <class T>
struct FieldRow {
  const char* name;
  std::function<void(T&)> set;
  sparsecollResult_t expected;
};
#define PARAM(change, expected)                                 \
  FieldRow<sparsecollParams_t> {                                \
#change, [](sparsecollParams_t & p) { p.change; }, expected \
  }
#define CONFIG(change, expected)                                \
  FieldRow<sparsecollConfig_t> {                                \
#change, [](sparsecollConfig_t & c) { c.change; }, expected \
  }
#define REDUCER(change, expected)                                      \
  FieldRow<sparsecollReducerConfig_t> {                                \
#change, [](sparsecollReducerConfig_t & c) { c.change; }, expected \
  }

constexpr auto kBad = sparsecollInvalidArgument;
constexpr auto kNotYet = sparsecollUnsupported;
constexpr auto kGood = sparsecollSuccess;

const FieldRow<sparsecollParams_t> kParams[] = {
    PARAM(tag = 1, kGood),
    PARAM(seed = ~0ull, kGood),
    PARAM(k = 0, kGood),
    PARAM(selector = -1, kBad),
    PARAM(selector = 17, kBad),
    PARAM(selector = sparsecollSelectAuto, kBad),  // with a collective that is named
    PARAM(distribution = 1, kGood),
    PARAM(distribution = 3, kGood),
    PARAM(distribution = 4, kBad),
    PARAM(distribution = -1, kBad),
    PARAM(chunk = -1, kBad),
    PARAM(chunk = 65537, kBad),
    PARAM(chunk = 65536, kGood),
    PARAM(selector = 255, kBad),
    PARAM(selector = 0x7fffffff, kBad),
    PARAM(selector = sparsecollSelectDefault, kGood),
    PARAM(selector = sparsecollSelectSampled, kGood),
    PARAM(teams = -1, kBad),
    PARAM(teams = 1025, kBad),
    PARAM(teams = 3, kGood),  // matters to SparDL only
    PARAM(teamGather = -1, kBad),
    PARAM(teamGather = 3, kBad),
    PARAM(teamGather = 2, kGood),
    PARAM(selector = sparsecollSelectDeft, kGood),
    PARAM(selector = sparsecollSelectChunkTopK, kGood),
    PARAM(selector = sparsecollSelectRandom, kGood),
    PARAM(selector = sparsecollSelectRandomOfTop, kGood),
    PARAM(candidates = 1; p.selector = sparsecollSelectRandomOfTop, kBad),
    PARAM(candidates = ~0ull; p.selector = sparsecollSelectRandomOfTop, kGood),
    PARAM(candidates = 1, kGood),  // matters to RandomOfTop only
    PARAM(collective = -1, kBad),
    PARAM(collective = 11, kBad),
    PARAM(collective = 255, kBad),
    PARAM(collective = 0x7fffffff, kBad),
    PARAM(collective = sparsecollCollAuto, kGood),
    PARAM(collective = sparsecollCollSparDL, kGood),
    PARAM(collective = sparsecollCollHierarchical, kGood),
    PARAM(faithful = -1, kBad),
    PARAM(faithful = 2, kBad),  // topk has one published rule
    PARAM(faithful = 2; p.selector = sparsecollSelectGaussian, kGood),
    PARAM(faithful = 3; p.selector = sparsecollSelectGaussian, kBad),
    PARAM(faithful = 0x7fffffff, kBad),
    PARAM(op = -1, kBad),
    PARAM(op = 1, kBad),
    PARAM(op = 3, kBad),
    PARAM(op = 5, kBad),
    PARAM(op = 255, kBad),
    PARAM(op = 0x7fffffff, kBad),
    PARAM(op = sparsecollAvg, kGood),
    PARAM(wire = -1, kBad),
    PARAM(wire = 6, kBad),
    PARAM(wire = 255, kBad),
    PARAM(wire = 0x7fffffff, kBad),
    PARAM(wire = sparsecollWireSame, kGood),
    PARAM(wire = sparsecollWireF16, kNotYet),
    PARAM(wire = sparsecollWireF8e5m2, kNotYet),
    PARAM(flags = 1, kBad),
    PARAM(flags = 4, kBad),
    PARAM(flags = 64, kBad),   // SPARSECOLL_MOMENTUM_KEPT without momentum
    PARAM(flags = 128, kBad),  // SPARSECOLL_NESTEROV without momentum
    PARAM(flags = 256, kBad),  // SPARSECOLL_AVERAGE_CONTRIBUTORS without an average
    PARAM(flags = 512, kBad),
    PARAM(flags = SPARSECOLL_AVERAGE_CONTRIBUTORS; p.op = sparsecollAvg, kGood),
    PARAM(flags = SPARSECOLL_AVERAGE_CONTRIBUTORS; p.op = sparsecollAvg; p.collective = sparsecollCollDense, kGood),
    PARAM(flags = 0x80000000u, kBad),
    PARAM(flags = SPARSECOLL_ACCUMULATE | SPARSECOLL_OUT_PRESERVED, kBad),
    PARAM(flags = SPARSECOLL_SELECT_NOTHING, kBad),
    PARAM(flags = SPARSECOLL_NO_RESIDUAL, kGood),
    PARAM(density = 0, kBad),
    PARAM(density = -0.0, kBad),
    PARAM(density = -0.1, kBad),
    PARAM(density = 1.0001, kBad),
    PARAM(density = std::nan(""), kBad),
    PARAM(density = HUGE_VAL, kBad),
    PARAM(density = -HUGE_VAL, kBad),
    PARAM(density = 1, kGood),
    PARAM(density = 5e-324, kGood),
    PARAM(k = 5, kBad),
    PARAM(k = ~0ull, kBad),
    PARAM(threshold = -1, kBad),
    PARAM(threshold = std::nan(""), kBad),
    PARAM(threshold = HUGE_VAL, kBad),
    PARAM(threshold = 1e-320, kGood),
    PARAM(inputScale = std::nan(""), kBad),
    PARAM(inputScale = HUGE_VAL, kBad),
    PARAM(inputScale = -HUGE_VAL, kBad),
    PARAM(inputScale = -2, kGood),
    PARAM(outputScale = std::nan(""), kBad),
    PARAM(outputScale = HUGE_VAL, kBad),
    PARAM(outputScale = 1e-3, kGood),
    PARAM(momentum = -0.1, kBad),
    PARAM(momentum = 1, kBad),
    PARAM(momentum = std::nan(""), kBad),
    PARAM(momentum = HUGE_VAL, kBad),
    PARAM(momentum = 0.9, kGood),
    PARAM(momentum = 0.9; p.flags = SPARSECOLL_MOMENTUM_KEPT | SPARSECOLL_NESTEROV, kGood),
    PARAM(momentum = 0.9; p.flags = SPARSECOLL_NO_RESIDUAL, kBad),
    PARAM(momentum = 0.9; p.collective = sparsecollCollDense, kGood),
    PARAM(momentum = 0.9; p.collective = sparsecollCollAuto, kGood),
    PARAM(clipNorm = -1, kBad),
    PARAM(clipNorm = std::nan(""), kBad),
    PARAM(clipNorm = HUGE_VAL, kBad),
    PARAM(clipNorm = 1e-300, kGood),
    PARAM(clipNorm = 1; p.flags = SPARSECOLL_NO_RESIDUAL, kGood),
    PARAM(clipNorm = 1; p.collective = sparsecollCollDense, kGood),
    PARAM(reserved0 = 1, kNotYet),
    PARAM(residualDecay = -0.5, kBad),
    PARAM(residualDecay = 1.001, kBad),
    PARAM(residualDecay = std::nan(""), kBad),
    PARAM(residualDecay = 0.5, kGood),
    PARAM(residualDecay = 1; p.flags = SPARSECOLL_NO_RESIDUAL, kGood),
    PARAM(residualDecay = 0.5; p.flags = SPARSECOLL_NO_RESIDUAL, kBad),
    PARAM(residualDecay = 0.5; p.collective = sparsecollCollDense, kGood),
};

const FieldRow<sparsecollConfig_t> kConfigs[] = {
    CONFIG(backend = -1, kBad),
    CONFIG(backend = 3, kBad),
    CONFIG(backend = 255, kBad),
    CONFIG(backend = 0x7fffffff, kBad),
    CONFIG(backend = sparsecollBackendHost, kGood),
    CONFIG(backend = sparsecollBackendCuda, kBad),
    CONFIG(transport = -1, kBad),
    CONFIG(transport = 7, kBad),
    CONFIG(transport = 255, kBad),
    CONFIG(transport = 0x7fffffff, kBad),
    CONFIG(transport = sparsecollTransportThreads, kGood),
    CONFIG(transport = sparsecollTransportUcx, kNotYet),
    CONFIG(transport = sparsecollTransportSimulated, kNotYet),
    CONFIG(transport = sparsecollTransportTcp, kNotYet),
    CONFIG(nonFinite = -1, kBad),
    CONFIG(nonFinite = 3, kBad),
    CONFIG(nonFinite = 0x7fffffff, kBad),
    CONFIG(nonFinite = sparsecollNonFiniteError, kGood),
    CONFIG(reserved0 = 1, kNotYet),
    CONFIG(opTimeoutMs = 1, kGood),
    CONFIG(opTimeoutMs = SPARSECOLL_NO_TIMEOUT, kGood),
    CONFIG(workspaceLimitBytes = 1, sparsecollOutOfMemory),
    CONFIG(name = "", kGood),
    CONFIG(initTimeoutMs = 1, kGood),
    CONFIG(abortTimeoutMs = SPARSECOLL_NO_TIMEOUT, kGood),
    CONFIG(interfaceName = "lo", kGood),
    CONFIG(interfaceName = "", kBad),
    CONFIG(interfaceName = "sixteen.bytes.it", kBad),
    CONFIG(interfaceName = "../lo", kBad),
    CONFIG(interfaceName = "127.0.0.1", kGood),
    CONFIG(interfaceName = "2001:db8:0:1:2:3:4:5", kGood),
    CONFIG(interfaceName = "2001:db8:0:1:2:3:4:5:6", kBad),
    CONFIG(security = -1, kBad),
    CONFIG(security = 3, kBad),
    CONFIG(security = sparsecollSecurityNone, kNotYet),
    CONFIG(ranksPerNode = -1, kBad),
    CONFIG(ranksPerNode = 1024, kGood),
    CONFIG(ranksPerNode = 1025, kBad),
    CONFIG(reserved1 = 1, kNotYet),
    CONFIG(reserved2 = 1, kNotYet),
};

const sparsecollSegment_t kOne[] = {{kLength, 0, 0, 0}};
const sparsecollSegment_t kShort[] = {{kLength - 1, 0, 0, 0}};
const sparsecollSegment_t kEmptySegment[] = {{kLength, 0, 0, 0}, {0, 0, 0, 0}};
const sparsecollSegment_t kWraps[] = {{~0ull, 0, 0, 0}, {kLength + 1, 0, 0, 0}};
const sparsecollSegment_t kTooDense[] = {{kLength, 1.5, 0, 0}};
const sparsecollSegment_t kNegative[] = {{kLength, -0.5, 0, 0}};
const sparsecollSegment_t kDense2[] = {{kLength, 0, 2, 0}};
const sparsecollSegment_t kReserved[] = {{kLength, 0, 0, 1}};

const double kWarmUp[] = {0.5, 0.2};
const double kNotADensity[] = {0.5, 1.5};
const double kZeroDensity[] = {0.5, 0};
const sparsecollChoice_t kPlan[] = {{0, sparsecollSelectTopK, sparsecollCollAllGather}};

const FieldRow<sparsecollReducerConfig_t> kReducers[] = {
    REDUCER(segmentCount = 1, kBad),
    REDUCER(segments = kOne, kBad),
    REDUCER(segments = kOne; c.segmentCount = 1, kGood),
    REDUCER(segments = kShort; c.segmentCount = 1, kBad),
    REDUCER(segments = kEmptySegment; c.segmentCount = 2, kBad),
    REDUCER(segments = kWraps; c.segmentCount = 2, kBad),
    REDUCER(segments = kTooDense; c.segmentCount = 1, kBad),
    REDUCER(segments = kNegative; c.segmentCount = 1, kBad),
    REDUCER(segments = kDense2; c.segmentCount = 1, kBad),
    REDUCER(segments = kReserved; c.segmentCount = 1, kNotYet),
    REDUCER(segments = kOne; c.segmentCount = ~0ull, kBad),
    REDUCER(maxDensity = -0.1, kBad),
    REDUCER(maxDensity = 1.1, kBad),
    REDUCER(maxDensity = std::nan(""), kBad),
    REDUCER(maxDensity = 0.05, kBad),
    REDUCER(maxDensity = 1, kGood),
    REDUCER(accumulateType = -1, kBad),
    REDUCER(accumulateType = 5, kBad),
    REDUCER(accumulateType = 255, kBad),
    REDUCER(accumulateType = 0x7fffffff, kBad),
    REDUCER(accumulateType = sparsecollFloat32, kGood),
    REDUCER(accumulateType = sparsecollFloat64, kNotYet),
    REDUCER(transactional = -1, kBad),
    REDUCER(transactional = 2, kBad),
    REDUCER(transactional = 1, kGood),
    REDUCER(densitySchedule = kWarmUp, kBad),
    REDUCER(densityScheduleCount = 2, kBad),
    REDUCER(scheduleSteps = 2, kBad),
    REDUCER(densitySchedule = kWarmUp; c.densityScheduleCount = 2, kBad),
    REDUCER(densitySchedule = kWarmUp; c.densityScheduleCount = 2; c.scheduleSteps = 10, kGood),
    REDUCER(densitySchedule = kWarmUp; c.densityScheduleCount = 2; c.scheduleSteps = ~0ull, kBad),
    REDUCER(densitySchedule = kWarmUp; c.densityScheduleCount = ~0ull; c.scheduleSteps = 1, kNotYet),
    REDUCER(densitySchedule = kWarmUp; c.densityScheduleCount = 2; c.scheduleSteps = 1; c.maxDensity = 0.4, kBad),
    REDUCER(densitySchedule = kWarmUp; c.densityScheduleCount = 2; c.scheduleSteps = 1; c.maxDensity = 0.5, kGood),
    REDUCER(densitySchedule = kNotADensity; c.densityScheduleCount = 2; c.scheduleSteps = 1, kBad),
    REDUCER(densitySchedule = kZeroDensity; c.densityScheduleCount = 2; c.scheduleSteps = 1, kBad),
    REDUCER(buffer = reinterpret_cast<void*>(0x1002), kBad),
    REDUCER(denseNs = 1, kGood),
    REDUCER(plan = kPlan; c.planCount = 1, kBad),  // of a method that is named
    REDUCER(planCount = 1, kBad),
    REDUCER(velocity = reinterpret_cast<void*>(0x1000), kBad),  // of a method without momentum
};

}  // namespace

TEST_CASE("heads of structs that come in") {
  Group group(1, kLength, sparsecollFloat32, preset("topka", 0.1));
  const std::function<void(sparsecollParams_t&)> fill = [](sparsecollParams_t& p) { p.density = 0.1; };
  checkIn<sparsecollParams_t>("ReducerCreate params", fill, [&](auto* p) { return create(group.ranks(), p); });
  checkIn<sparsecollParams_t>("AllReduce params", fill, [&](auto* p) {
    return sparsecollAllReduce(group.gradients[0].data(), group.outs[0].data(), kLength, sparsecollFloat32, p,
                               group.ranks()[0], nullptr);
  });
  checkIn<sparsecollParams_t>("Select params", fill, [&](auto* p) {
    SparseVector out(sparsecollFloat32, kLength, kLength);
    return sparsecollSelect(group.gradients[0].data(), kLength, sparsecollFloat32, p, out.view(), group.ranks()[0],
                            nullptr);
  });
  checkIn<sparsecollParams_t>("AllReduceVector params", fill, [&](auto* p) {
    SparseVector in(sparsecollFloat32, kLength, 1);
    SparseVector out(sparsecollFloat32, kLength, 1);
    return sparsecollAllReduceVector(in.view(), out.view(), p, group.ranks()[0], nullptr);
  });
  checkIn<sparsecollConfig_t>(
      "CommInitAll config", [](auto&) {}, [](auto* c) { return init(c); });
  const sparsecollParams_t params = preset("topka", 0.1);
  checkIn<sparsecollReducerConfig_t>(
      "ReducerCreate config", [](auto&) {}, [&](auto* c) { return create(group.ranks(), &params, c); });
  CHECK(group.step() == all(1, sparsecollSuccess));
}

TEST_CASE("heads of structs that go out") {
  Group group(1, kLength, sparsecollFloat32, preset("topka", 0.1));
  const sparsecollComm_t comm = group.ranks()[0];
  checkOut<sparsecollParams_t>("Preset", [](auto* p) { return sparsecollPreset("micro", p); });
  checkOut<sparsecollStats_t>("GetStats", [&](auto* s) { return sparsecollGetStats(comm, s); });
  checkOut<sparsecollStats_t>("ReducerGetStats",
                              [&](auto* s) { return sparsecollReducerGetStats(group.reducer(0), s); });
  checkOut<sparsecollReducerInfo_t>("GetInfo", [&](auto* i) { return sparsecollReducerGetInfo(group.reducer(0), i); });
  checkOut<sparsecollCommDetails_t>("GetDetails", [&](auto* d) { return sparsecollCommGetDetails(comm, d); });
  checkOut<sparsecollFailure_t>("GetFailure", [&](auto* f) { return sparsecollCommGetFailure(comm, f); });
  checkOut<sparsecollFailure_t>("GetPeerFailure", [&](auto* f) { return sparsecollCommGetPeerFailure(comm, f); });
}

TEST_CASE("a preset whose fields an older header lacks is refused") {
  constexpr size_t kBeforeMomentum = offsetof(sparsecollParams_t, momentum);
  sparsecollParams_t params = SPARSECOLL_INIT(sparsecollParams_t);
  params.structSize = kBeforeMomentum;
  CHECK(sparsecollPreset("topka", &params) == sparsecollSuccess);
  params.selector = 77;
  CHECK(sparsecollPreset("dgc", &params) == sparsecollUnsupported);
  CHECK(params.selector == 77);
  params.structSize = kBeforeMomentum + 8;
  CHECK(sparsecollPreset("dgc", &params) == sparsecollSuccess);
  CHECK(params.momentum == 0.9);
}

TEST_CASE("every field of params") {
  const Ranks ranks(1);
  for (const auto& row : kParams) {
    CAPTURE(row.name);
    sparsecollParams_t params = preset("topka", 0.1);
    row.set(params);
    CHECK(create(ranks, &params) == row.expected);
    if (row.expected == kBad) CHECK_THAT(sparsecollGetLastError(), Catch::StartsWith("ReducerCreate: "));
    const sparsecollParams_t good = preset("topka", 0.1);
    REQUIRE(create(ranks, &good) == sparsecollSuccess);
  }
}

TEST_CASE("the text names the field that is wrong") {
  const Ranks ranks(1);
  for (const char* const field : {"selector", "collective", "faithful", "op", "wire", "flags", "density", "threshold",
                                  "inputScale", "outputScale", "momentum", "clipNorm", "residualDecay", "candidates"})
    for (const auto& row : kParams) {
      if (row.expected != kBad || std::string(row.name).find(std::string(field) + " = ") != 0) continue;
      CAPTURE(row.name);
      sparsecollParams_t params = preset("topka", 0.1);
      row.set(params);
      REQUIRE(create(ranks, &params) == kBad);
      const bool conflict = params.flags == (SPARSECOLL_ACCUMULATE | SPARSECOLL_OUT_PRESERVED) ||
                            params.flags == SPARSECOLL_SELECT_NOTHING || params.flags == SPARSECOLL_MOMENTUM_KEPT ||
                            params.flags == SPARSECOLL_NESTEROV ||
                            params.flags == SPARSECOLL_AVERAGE_CONTRIBUTORS;  // then both are named instead
      if (!conflict) CHECK_THAT(sparsecollGetLastError(), Catch::Contains(std::string("params.") + field));
    }
}

TEST_CASE("every field of the communicator's configuration") {
  for (const auto& row : kConfigs) {
    CAPTURE(row.name);
    sparsecollConfig_t config = SPARSECOLL_INIT(sparsecollConfig_t);
    row.set(config);
    CHECK(init(&config) == row.expected);
    REQUIRE(init(nullptr) == sparsecollSuccess);
  }
}

TEST_CASE("every field of the reducer's configuration") {
  const Ranks ranks(1);
  const sparsecollParams_t params = preset("topka", 0.1);
  for (const auto& row : kReducers) {
    CAPTURE(row.name);
    sparsecollReducerConfig_t config = SPARSECOLL_INIT(sparsecollReducerConfig_t);
    row.set(config);
    CHECK(create(ranks, &params, &config) == row.expected);
    REQUIRE(create(ranks, &params) == sparsecollSuccess);
  }
}

TEST_CASE("lengths and types") {
  const Ranks ranks(1);
  const sparsecollParams_t params = preset("topka", 0.1);
  for (const uint64_t n : {uint64_t{0}, uint64_t{0xffffffff}, uint64_t{1} << 32, ~uint64_t{0}}) {
    CAPTURE(n);
    CHECK(create(ranks, &params, nullptr, n) == (n == 0 ? kBad : kNotYet));
  }
  for (const int type : {0, 5, 10, 255, 0x7fffffff}) {
    CAPTURE(type);
    CHECK(create(ranks, &params, nullptr, kLength, static_cast<sparsecollDataType_t>(type)) == kBad);
    float vector[kLength] = {};
    CHECK(sparsecollAllReduce(vector, vector, kLength, static_cast<sparsecollDataType_t>(type), &params, ranks[0],
                              nullptr) == kBad);
  }
  CHECK(create(ranks, &params) == sparsecollSuccess);
}
