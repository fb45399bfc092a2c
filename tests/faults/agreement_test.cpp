// Every field of every struct that comes in, walked: in which one ranks differ they are told by its name, all of them
// (T30 to T38), or it may differ, for the reason that its row gives. A new field without a row fails the walk.
#include "tests/support/catch.h"

#include <array>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <span>

#include "tests/support/group.h"

using namespace sparsecoll::test;

namespace {

constexpr uint64_t kLength = 400;

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

const double kSchedule[] = {0.2, 0.3};
const double kOtherSchedule[] = {0.25, 0.3};
const sparsecollSegment_t kHalves[] = {{200, 0, 0, 0}, {200, 0, 0, 0}};
const sparsecollSegment_t kThirds[] = {{100, 0, 0, 0}, {300, 0, 0, 0}};
const sparsecollSegment_t kRuled[] = {{200, 0.2, 0, 0}, {200, 0, 0, 0}};
const sparsecollSegment_t kDense[] = {{200, 0, 1, 0}, {200, 0, 0, 0}};
float ownResidual[kLength];
float ownVelocity[kLength];
const sparsecollChoice_t kPlan[] = {{0, sparsecollSelectTopK, sparsecollCollAllGather},
                                    {1, sparsecollSelectTopK, sparsecollCollSplitGather}};
const sparsecollChoice_t kOtherPlan[] = {{0, sparsecollSelectTopK, sparsecollCollSplitGather}};

void schedule(Given& g) {
  g.reducer.densitySchedule = kSchedule;
  g.reducer.densityScheduleCount = 1;
  g.reducer.scheduleSteps = 2;
}
void replay(Given& g) {
  g.params = preset("auto", 0.1);
  g.reducer.plan = kPlan;
  g.reducer.planCount = 1;
}
void halves(Given& g) {
  g.reducer.segments = kHalves;
  g.reducer.segmentCount = 2;
}
void team(Given& g) {
  g.params = preset("spardl", 0.1);
  g.params.teams = 2;
}
void quiet(void*, sparsecollLogLevel_t, const char*, const char*) {}
int someone = 0;

void* take(void*, size_t bytes, sparsecollStream_t) {
  return std::aligned_alloc(SPARSECOLL_ALLOCATOR_ALIGNMENT, bytes);
}
void give(void*, void* block, size_t, sparsecollStream_t) { std::free(block); }
const sparsecollAllocator_t* ownAllocator() {
  static sparsecollAllocator_t allocator = SPARSECOLL_INIT(sparsecollAllocator_t);
  allocator.allocate = take;
  allocator.release = give;
  return &allocator;
}

const Row kConfig[] = {
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

const Row kParams[] = {
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

const Row kReducer[] = {
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

const Row kSegment[] = {
    {AT(sparsecollSegment_t, length), "segments", nullptr, [](Given& g) { g.reducer.segments = kThirds; }, halves},
    {AT(sparsecollSegment_t, density), "segments", nullptr, [](Given& g) { g.reducer.segments = kRuled; }, halves},
    {AT(sparsecollSegment_t, dense), "segments", nullptr, [](Given& g) { g.reducer.segments = kDense; }, halves},
    {AT(sparsecollSegment_t, reserved0), nullptr, "0", nullptr},
};

const Row kArguments[] = {
    {"n", 0, 8, "n", nullptr, [](Given& g) { g.n = kLength - 1; }},
    {"type", 8, 4, "type", nullptr, [](Given& g) { g.type = sparsecollBfloat16; }},
};

// From the first byte to the last one there is a row, but for what alignment leaves free.
void walk(const char* what, const Row* rows, size_t count, size_t bytes) {
  size_t end = 0;
  for (size_t r = 0; r < count; ++r) {
    CAPTURE(what, rows[r].member);
    CHECK(rows[r].offset == end);
    CHECK((rows[r].field == nullptr) == (rows[r].mayDiffer != nullptr));
    end = rows[r].offset + rows[r].bytes;
  }
  CAPTURE(what);
  CHECK(end == bytes);
}
#define WALK(type, rows) walk(#type, rows, std::size(rows), sizeof(type))

// The communicators that ranks make with a configuration of their own each; nullptr where a rank got none.
struct Made {
  Results results;
  std::vector<sparsecollComm_t> comms;
};

#ifdef SPARSECOLL_TEST_PAIRS
int sumElsewhere(void*, const void*, void*, uint64_t, int32_t, int32_t, void**) { return sparsecollUnsupported; }

Made meet(int count, const std::vector<Given>& given, int withSum = -1) {
  Made made{Results(given.size()), std::vector<sparsecollComm_t>(given.size())};
  PairMesh mesh(count);
  RankThreads::ofProcess().run(count, [&](int rank) {
    const auto r = static_cast<size_t>(rank);
    auto engine = std::make_unique<PairEngine>(rank, mesh.takeSockets(rank));
    sparsecollEngine_t table = engine->table();
    if (rank == withSum) table.iallreduce = sumElsewhere;
    made.results[r] = sparsecollCommInitEngine(&made.comms[r], count, rank, SPARSECOLL_HOST, &table, &given[r].config);
    if (made.results[r] == sparsecollSuccess) (void)engine.release();
  });
  return made;
}
#else
// On threads only a split gives ranks a configuration each.
Made meet(int count, const std::vector<Given>& given) {
  const Ranks all(count);
  Made made{Results(given.size()), std::vector<sparsecollComm_t>(given.size())};
  made.results = onEach(all, [&](int rank, sparsecollComm_t comm) {
    const auto r = static_cast<size_t>(rank);
    return sparsecollCommSplit(comm, 0, rank, &made.comms[r], &given[r].config);
  });
  return made;
}
#endif

constexpr int kCount = 4;

std::vector<Given> givenBy(const Row& row, int odd) {
  std::vector<Given> given(kCount);
  for (Given& one : given)
    if (row.both != nullptr) row.both(one);
  row.change(given[static_cast<size_t>(odd)]);
  return given;
}

sparsecollResult_t oneStep(const Given& given, sparsecollComm_t comm) {
  sparsecollReducer_t reducer = nullptr;
  sparsecollResult_t result =
      sparsecollReducerCreate(&reducer, given.n, given.type, &given.params, &given.reducer, comm);
  if (result != sparsecollSuccess) return result;
  std::vector<double> vector(kLength, 1.0);
  result = sparsecollReducerRun(reducer, vector.data(), vector.data(), nullptr);
  const sparsecollResult_t destroyed = sparsecollReducerDestroy(reducer);
  return result != sparsecollSuccess ? result : destroyed;
}

void checkNamed(const Ranks& ranks, const Results& results, const char* field) {
  CHECK(results == all(ranks.count(), sparsecollMismatch));
  for (int rank = 0; rank < ranks.count(); ++rank) {
    CHECK(std::string(failureOf(ranks[rank]).field) == field);
    CHECK_THAT(std::string(failureOf(ranks[rank]).text), Catch::Contains(field));
  }
}

void checkReducer(const Ranks& ranks, const Row& row, int odd) {
  if (row.change == nullptr) return;
  CAPTURE(row.member, odd);
  const std::vector<Given> given = givenBy(row, odd);
  const auto attempt = [&](const std::vector<Given>& all) {
    return onEach(ranks,
                  [&](int rank, sparsecollComm_t comm) { return oneStep(all[static_cast<size_t>(rank)], comm); });
  };
  if (row.field == nullptr) {
    CHECK(attempt(given) == all(kCount, sparsecollSuccess));
  } else {
    checkNamed(ranks, attempt(given), row.field);
    CHECK(attempt(std::vector<Given>(kCount)) == all(kCount, sparsecollSuccess));  // the next call works
  }
}

}  // namespace

TEST_CASE("every field of the structs has a row") {
  WALK(sparsecollConfig_t, kConfig);
  WALK(sparsecollParams_t, kParams);
  WALK(sparsecollReducerConfig_t, kReducer);
  WALK(sparsecollSegment_t, kSegment);
}

TEST_CASE("a communicator's config: each field in turn") {
  for (const Row& row : kConfig)
    for (const int odd : {0, 2}) {
      if (row.change == nullptr) continue;
      CAPTURE(row.member, odd);
      const Made made = meet(kCount, givenBy(row, odd));
      CHECK(made.results == all(kCount, row.field == nullptr ? sparsecollSuccess : sparsecollMismatch));
      const Ranks ranks(made.comms);
      if (row.field == nullptr) {
        CHECK(onEach(ranks, [](int, sparsecollComm_t comm) { return oneStep({}, comm); }) ==
              all(kCount, sparsecollSuccess));
      } else {
        CHECK(made.comms == std::vector<sparsecollComm_t>(kCount));
      }
    }
}

TEST_CASE("what a communicator's ranks differ in is named") {
  std::vector<Given> given(2);
  given[1].config.nonFinite = sparsecollNonFiniteError;
  std::vector<std::string> texts(2);
#ifdef SPARSECOLL_TEST_PAIRS
  PairMesh mesh(2);
  RankThreads::ofProcess().run(2, [&](int rank) {
    const auto r = static_cast<size_t>(rank);
    PairEngine engine(rank, mesh.takeSockets(rank));
    const sparsecollEngine_t table = engine.table();
    sparsecollComm_t none = nullptr;
    if (sparsecollCommInitEngine(&none, 2, rank, SPARSECOLL_HOST, &table, &given[r].config) == sparsecollMismatch)
      texts[r] = sparsecollGetLastError();
  });
#else
  onEach(Ranks(2), [&](int rank, sparsecollComm_t comm) {
    const auto r = static_cast<size_t>(rank);
    sparsecollComm_t none = nullptr;
    const sparsecollResult_t result = sparsecollCommSplit(comm, 0, rank, &none, &given[r].config);
    if (result == sparsecollMismatch) texts[r] = sparsecollGetLastError();
    return result;
  });
#endif
  for (const std::string& text : texts)
    CHECK_THAT(text, Catch::Contains("nonFinite: propagate on rank 0, error on rank 1"));
}

#ifdef SPARSECOLL_TEST_PAIRS
TEST_CASE("engines sum on all ranks or on none") {
  for (const int odd : {0, 2})
    CHECK(meet(kCount, std::vector<Given>(kCount), odd).results == all(kCount, sparsecollMismatch));
}
#endif

TEST_CASE("a reducer's arguments, params and config: each field in turn") {
  const Given patient;
  const Ranks ranks(kCount, &patient.config);
  for (const auto& rows : {std::span<const Row>(kArguments), std::span<const Row>(kParams),
                           std::span<const Row>(kReducer), std::span<const Row>(kSegment)})
    for (const Row& row : rows)
      for (const int odd : {0, 2}) checkReducer(ranks, row, odd);
}

TEST_CASE("a step: another density with the same k, other scales") {
  const Given patient;
  sparsecollReducerConfig_t config = SPARSECOLL_INIT(sparsecollReducerConfig_t);
  config.maxDensity = 0.5;
  Group group(3, kLength, sparsecollFloat32, preset("topka", 0.1), &config, &patient.config);
  const auto with = [&](double density, double in, double out) {
    CHECK(group.each([&](int rank, sparsecollReducer_t reducer) {
      if (rank != 1) return sparsecollSuccess;
      const sparsecollResult_t set = sparsecollReducerSetDensity(reducer, density);
      return set != sparsecollSuccess ? set : sparsecollReducerSetScales(reducer, in, out);
    }) == all(3, sparsecollSuccess));
    return group.step();
  };
  for (const auto& [density, in, out] : {std::array{0.1001, 1.0, 1.0}, {0.1, 2.0, 1.0}, {0.1, 1.0, 2.0}}) {
    CAPTURE(density, in, out);
    CHECK(with(density, in, out) == all(3, sparsecollMismatch));
    CHECK(std::string(failureOf(group.ranks()[0]).field) == "order");
    CHECK(with(0.1, 1, 1) == all(3, sparsecollSuccess));
  }
}
