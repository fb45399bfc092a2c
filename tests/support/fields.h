// Every field of every struct that comes in: in which ranks may differ, and in which they are told by its name (T30 to
// T38).
#pragma once

#include <array>
#include <cstddef>
#include <cstdlib>
#include <span>
#include <vector>

#include "tests/support/presets.h"
#include "tests/support/ranks.h"

namespace sparsecoll::test::fields {

inline constexpr uint64_t kLength = 400;

// What one rank gives. The vectors of all ranks are alike.
struct Given {
  uint64_t n = kLength;
  sparsecollDataType_t type = sparsecollFloat32;
  sparsecollConfig_t config = SPARSECOLL_INIT(sparsecollConfig_t);
  sparsecollParams_t params = preset("topka", 0.1);
  sparsecollReducerConfig_t reducer = SPARSECOLL_INIT(sparsecollReducerConfig_t);
  Given() { config.opTimeoutMs = config.initTimeoutMs = 20000; }
};

using Change = void (*)(Given&);

struct Row {
  const char* member;
  size_t offset, bytes;
  const char* field;      // as the failure names it; nullptr: it may differ
  const char* mayDiffer;  // why
  Change change;          // on one rank; nullptr: there is no other value that is taken
  Change both = nullptr;  // on all of them, before
};

#define AT(type, member) #member, offsetof(type, member), sizeof(type::member)
#define HEAD(type)                                                                                                     \
  {AT(type, structSize), nullptr, "a caller's own header", nullptr}, {AT(type, magic), nullptr, "one value", nullptr}, \
  {                                                                                                                    \
    AT(type, headerVersion), nullptr, "a caller's own header", nullptr                                                 \
  }

inline const double kSchedule[] = {0.2, 0.3};
inline const double kOtherSchedule[] = {0.25, 0.3};
inline const sparsecollSegment_t kHalves[] = {{200, 0, 0, 0}, {200, 0, 0, 0}};
inline const sparsecollSegment_t kThirds[] = {{100, 0, 0, 0}, {300, 0, 0, 0}};
inline const sparsecollSegment_t kRuled[] = {{200, 0.2, 0, 0}, {200, 0, 0, 0}};
inline const sparsecollSegment_t kDense[] = {{200, 0, 1, 0}, {200, 0, 0, 0}};
inline float ownResidual[kLength];
inline float ownVelocity[kLength];
inline const sparsecollChoice_t kPlan[] = {{0, sparsecollSelectTopK, sparsecollCollAllGather},
                                           {1, sparsecollSelectTopK, sparsecollCollSplitGather}};
inline const sparsecollChoice_t kOtherPlan[] = {{0, sparsecollSelectTopK, sparsecollCollSplitGather}};

inline void schedule(Given& g) {
  g.reducer.densitySchedule = kSchedule;
  g.reducer.densityScheduleCount = 1;
  g.reducer.scheduleSteps = 2;
}
inline void replay(Given& g) {
  g.params = preset("auto", 0.1);
  g.reducer.plan = kPlan;
  g.reducer.planCount = 1;
}
inline void halves(Given& g) {
  g.reducer.segments = kHalves;
  g.reducer.segmentCount = 2;
}
inline void team(Given& g) {
  g.params = preset("spardl", 0.1);
  g.params.teams = 2;
}
inline void quiet(void*, sparsecollLogLevel_t, const char*, const char*) {}
inline int someone = 0;

inline void* take(void*, size_t bytes, sparsecollStream_t) {
  return std::aligned_alloc(SPARSECOLL_ALLOCATOR_ALIGNMENT, bytes);
}
inline void give(void*, void* block, size_t, sparsecollStream_t) { std::free(block); }
inline const sparsecollAllocator_t* ownAllocator() {
  static sparsecollAllocator_t allocator = SPARSECOLL_INIT(sparsecollAllocator_t);
  allocator.allocate = take;
  allocator.release = give;
  return &allocator;
}

inline const Row kConfig[] = {
    HEAD(sparsecollConfig_t),
    {AT(sparsecollConfig_t, backend), nullptr, "Auto is where the vectors are; that is agreed on as `backend`",
     [](Given& g) { g.config.backend = sparsecollBackendHost; }},
#ifdef SPARSECOLL_TEST_PAIRS
    {AT(sparsecollConfig_t, transport), nullptr, "the call has one; ids and all-gathers agree on it as `transport`",
     [](Given& g) { g.config.transport = sparsecollTransportEngine; }},
#else
    {AT(sparsecollConfig_t, transport), nullptr, "the call has one; ids and all-gathers agree on it as `transport`",
     [](Given& g) { g.config.transport = sparsecollTransportThreads; }},
#endif
    {AT(sparsecollConfig_t, nonFinite), "nonFinite", nullptr,
     [](Given& g) { g.config.nonFinite = sparsecollNonFiniteError; }},
    {AT(sparsecollConfig_t, reserved0), nullptr, "0", nullptr},
    {AT(sparsecollConfig_t, opTimeoutMs), nullptr, "how long a rank waits is its own affair",
     [](Given& g) { g.config.opTimeoutMs = 30000; }},
    {AT(sparsecollConfig_t, workspaceLimitBytes), nullptr, "memory is a rank's own; who has too little is told of",
     [](Given& g) { g.config.workspaceLimitBytes = 1 << 30; }},
    {AT(sparsecollConfig_t, name), nullptr, "for logs", [](Given& g) { g.config.name = "another"; }},
    {AT(sparsecollConfig_t, logFn), nullptr, "for logs", [](Given& g) { g.config.logFn = quiet; }},
    {AT(sparsecollConfig_t, logUser), nullptr, "for logs", [](Given& g) { g.config.logUser = &someone; }},
    {AT(sparsecollConfig_t, initTimeoutMs), nullptr, "how long a rank waits is its own affair",
     [](Given& g) { g.config.initTimeoutMs = 30000; }},
    {AT(sparsecollConfig_t, abortTimeoutMs), nullptr, "how long a rank waits is its own affair",
     [](Given& g) { g.config.abortTimeoutMs = 5000; }},
    {AT(sparsecollConfig_t, interfaceName), nullptr, "hosts name their interfaces",
     [](Given& g) { g.config.interfaceName = "lo"; }},
    {AT(sparsecollConfig_t, security), nullptr, "there is one",
     [](Given& g) { g.config.security = sparsecollSecurityKeyed; }},
    {AT(sparsecollConfig_t, reserved1), nullptr, "0", nullptr},
    {AT(sparsecollConfig_t, allocator), nullptr, "memory is a rank's own",
     [](Given& g) { g.config.allocator = ownAllocator(); }},
    {AT(sparsecollConfig_t, ranksPerNode), "ranksPerNode", nullptr, [](Given& g) { g.config.ranksPerNode = 2; }},
    {AT(sparsecollConfig_t, reserved2), nullptr, "0", nullptr},
};

#define PARAM(member, change)                                                           \
  {                                                                                     \
    AT(sparsecollParams_t, member), #member, nullptr, [](Given& g) { g.params.change; } \
  }

inline const Row kParams[] = {
    HEAD(sparsecollParams_t),
    PARAM(selector, selector = sparsecollSelectThreshold),
    PARAM(collective, collective = sparsecollCollIndexUnion),
    PARAM(faithful, faithful = 1),
    PARAM(op, op = sparsecollAvg),
    {AT(sparsecollParams_t, wire), nullptr, "Default is Same; the others are Unsupported",
     [](Given& g) { g.params.wire = sparsecollWireSame; }},
    PARAM(flags, flags = SPARSECOLL_OUT_PRESERVED),
    PARAM(density, density = 0.1000001),  // the same k
    {AT(sparsecollParams_t, k), "k", nullptr, [](Given& g) { g.params.k = 41; },
     [](Given& g) {
       g.params.density = 0;
       g.params.k = 40;
     }},
    PARAM(threshold, threshold = 0.5),
    PARAM(inputScale, inputScale = 2),
    PARAM(outputScale, outputScale = 2),
    PARAM(seed, seed = 1),
    PARAM(tag, tag = 1),
    PARAM(distribution, distribution = sparsecollDistributionExponential),
    {AT(sparsecollParams_t, teams), "teams", nullptr, [](Given& g) { g.params.teams = 1; }, team},
    {AT(sparsecollParams_t, teamGather), "teamGather", nullptr,
     [](Given& g) { g.params.teamGather = sparsecollTeamGatherBruck; }, team},
    PARAM(chunk, chunk = 64),
    PARAM(momentum, momentum = 0.9),
    PARAM(clipNorm, clipNorm = 1),
    PARAM(residualDecay, residualDecay = 0.5),
    PARAM(candidates, candidates = 100),
    PARAM(betweenNodes, betweenNodes = sparsecollCollDense),
    {AT(sparsecollParams_t, reserved0), nullptr, "0", nullptr},
};

inline const Row kReducer[] = {
    HEAD(sparsecollReducerConfig_t),
    {AT(sparsecollReducerConfig_t, segments), "segments", nullptr, [](Given& g) { g.reducer.segments = kThirds; },
     halves},
    {AT(sparsecollReducerConfig_t, segmentCount), "segments", nullptr, halves},
    {AT(sparsecollReducerConfig_t, maxDensity), "maxDensity", nullptr, [](Given& g) { g.reducer.maxDensity = 0.5; }},
    {AT(sparsecollReducerConfig_t, buffer), nullptr, "where a residual lies is a rank's own affair",
     [](Given& g) { g.reducer.buffer = ownResidual; }},
    {AT(sparsecollReducerConfig_t, accumulateType), nullptr, "follows from type, which is agreed on",
     [](Given& g) { g.reducer.accumulateType = sparsecollFloat32; }},
    {AT(sparsecollReducerConfig_t, transactional), "transactional", nullptr,
     [](Given& g) { g.reducer.transactional = 1; }},
    {AT(sparsecollReducerConfig_t, densitySchedule), "densitySchedule", nullptr,
     [](Given& g) { g.reducer.densitySchedule = kOtherSchedule; }, schedule},
    {AT(sparsecollReducerConfig_t, densityScheduleCount), "densitySchedule", nullptr,
     [](Given& g) { g.reducer.densityScheduleCount = 2; }, schedule},
    {AT(sparsecollReducerConfig_t, scheduleSteps), "scheduleSteps", nullptr,
     [](Given& g) { g.reducer.scheduleSteps = 3; }, schedule},
    {AT(sparsecollReducerConfig_t, denseNs), nullptr, "the largest counts", [](Given& g) { g.reducer.denseNs = 1; }},
    {AT(sparsecollReducerConfig_t, plan), "plan", nullptr, [](Given& g) { g.reducer.plan = kOtherPlan; }, replay},
    {AT(sparsecollReducerConfig_t, planCount), "plan", nullptr, [](Given& g) { g.reducer.planCount = 2; }, replay},
    {AT(sparsecollReducerConfig_t, velocity), nullptr, "where velocity lies is a rank's own affair",
     [](Given& g) { g.reducer.velocity = ownVelocity; }, [](Given& g) { g.params.momentum = 0.9; }},
};

inline const Row kSegment[] = {
    {AT(sparsecollSegment_t, length), "segments", nullptr, [](Given& g) { g.reducer.segments = kThirds; }, halves},
    {AT(sparsecollSegment_t, density), "segments", nullptr, [](Given& g) { g.reducer.segments = kRuled; }, halves},
    {AT(sparsecollSegment_t, dense), "segments", nullptr, [](Given& g) { g.reducer.segments = kDense; }, halves},
    {AT(sparsecollSegment_t, reserved0), nullptr, "0", nullptr},
};

inline const Row kArguments[] = {
    {"n", 0, 8, "n", nullptr, [](Given& g) { g.n = kLength - 1; }},
    {"type", 8, 4, "type", nullptr, [](Given& g) { g.type = sparsecollBfloat16; }},
};

// All that a reducer and its step are given.
inline const std::span<const Row> kOfReducers[] = {kArguments, kParams, kReducer, kSegment};

inline constexpr int kCount = 4;

// All ranks alike, but for the odd one.
inline std::vector<Given> givenBy(const Row& row, int odd) {
  std::vector<Given> given(kCount);
  for (Given& one : given)
    if (row.both != nullptr) row.both(one);
  row.change(given[static_cast<size_t>(odd)]);
  return given;
}

inline sparsecollResult_t oneStep(const Given& given, sparsecollComm_t comm, sparsecollStream_t stream = nullptr) {
  sparsecollReducer_t reducer = nullptr;
  sparsecollResult_t result =
      sparsecollReducerCreate(&reducer, given.n, given.type, &given.params, &given.reducer, comm);
  if (result != sparsecollSuccess) return result;
  std::vector<double> vector(kLength, 1.0);
  result = sparsecollReducerRun(reducer, vector.data(), vector.data(), stream);
  if (result == sparsecollSuccess) result = sparsecollCommWait(comm, stream, 0);
  const sparsecollResult_t destroyed = sparsecollReducerDestroy(reducer);
  return result != sparsecollSuccess ? result : destroyed;
}

}  // namespace sparsecoll::test::fields
