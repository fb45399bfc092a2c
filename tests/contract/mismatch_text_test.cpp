// What a Mismatch says: field, rank and both values, as a user writes them, in the same words on every rank.
#include "tests/support/catch.h"

#include <functional>

#include "tests/support/group.h"

using namespace sparsecoll::test;

namespace {

constexpr uint64_t kLength = 500;
constexpr int kCount = 4;

struct Wish {
  uint64_t n = kLength;
  sparsecollDataType_t type = sparsecollFloat32;
  sparsecollParams_t params = preset("topka", 0.01);
  sparsecollReducerConfig_t config = SPARSECOLL_INIT(sparsecollReducerConfig_t);
};

sparsecollResult_t createAndDestroy(const Wish& wish, sparsecollComm_t comm) {
  sparsecollReducer_t reducer = nullptr;
  const sparsecollResult_t result =
      sparsecollReducerCreate(&reducer, wish.n, wish.type, &wish.params, &wish.config, comm);
  return result == sparsecollSuccess ? sparsecollReducerDestroy(reducer) : result;
}

sparsecollResult_t addVectors(sparsecollComm_t comm, sparsecollDataType_t type, const sparsecollParams_t* params) {
  SparseVector in(type, kLength, 2);
  in.add(1, 1);
  SparseVector out(type, kLength, 64);
  return sparsecollAllReduceVector(in.view(), out.view(), params, comm, nullptr);
}


std::vector<std::string> texts(const Ranks& ranks) {
  std::vector<std::string> texts;
  for (int rank = 0; rank < ranks.count(); ++rank) texts.emplace_back(failureOf(ranks[rank]).text);
  return texts;
}

const sparsecollSegment_t kHalves[] = {{250, 0, 1, 0}, {250, 0, 0, 0}};
const double kWarmUp[] = {0.2};

struct Row {
  const char* text;
  std::function<void(Wish&)> change;
};

// Rank 3 asks for something else.
const Row kRows[] = {
    {"n: 500 on rank 0, 501 on rank 3", [](Wish& w) { w.n = kLength + 1; }},
    {"type: f32 on rank 0, bf16 on rank 3", [](Wish& w) { w.type = sparsecollBfloat16; }},
    {"selector: topk on rank 0, threshold on rank 3", [](Wish& w) { w.params.selector = sparsecollSelectThreshold; }},
    {"collective: allgather on rank 0, dense on rank 3", [](Wish& w) { w.params.collective = sparsecollCollDense; }},
    {"faithful: 0 on rank 0, 1 on rank 3", [](Wish& w) { w.params.faithful = 1; }},
    {"op: sum on rank 0, avg on rank 3", [](Wish& w) { w.params.op = sparsecollAvg; }},
    {"flags: none on rank 0, ACCUMULATE on rank 3", [](Wish& w) { w.params.flags = SPARSECOLL_ACCUMULATE; }},
    {"flags: none on rank 0, OUT_PRESERVED|MOMENTUM_KEPT|NESTEROV on rank 3",
     [](Wish& w) {
       w.params.flags = SPARSECOLL_OUT_PRESERVED | SPARSECOLL_MOMENTUM_KEPT | SPARSECOLL_NESTEROV;
       w.params.momentum = 0.9;
     }},
    {"density: 0.01 on rank 0, 0.001 on rank 3", [](Wish& w) { w.params.density = 0.001; }},
    {"inputScale: 1 on rank 0, -2.5e-10 on rank 3", [](Wish& w) { w.params.inputScale = -2.5e-10; }},
    {"momentum: 0 on rank 0, 0.9 on rank 3", [](Wish& w) { w.params.momentum = 0.9; }},
    {"seed: 0 on rank 0, 18446744073709551615 on rank 3", [](Wish& w) { w.params.seed = ~uint64_t{0}; }},
    {"segments: not the same on rank 0 and rank 3",
     [](Wish& w) {
       w.config.segments = kHalves;
       w.config.segmentCount = 2;
     }},
    {"densitySchedule: not the same on rank 0 and rank 3",
     [](Wish& w) {
       w.config.densitySchedule = kWarmUp;
       w.config.densityScheduleCount = 1;
       w.config.scheduleSteps = 5;
     }},
    {"maxDensity: 0 on rank 0, 0.5 on rank 3", [](Wish& w) { w.config.maxDensity = 0.5; }},
    {"transactional: 0 on rank 0, 1 on rank 3", [](Wish& w) { w.config.transactional = 1; }},
};

}  // namespace

TEST_CASE("ReducerCreate: values as a user writes them") {
  const Ranks ranks(kCount);
  for (const Row& row : kRows) {
    CAPTURE(row.text);
    Wish other;
    row.change(other);
    CHECK(onEach(ranks, [&](int rank, sparsecollComm_t comm) {
            return createAndDestroy(rank == 3 ? other : Wish{}, comm);
          }) == all(kCount, sparsecollMismatch));
    CHECK(texts(ranks) == std::vector<std::string>(kCount, row.text));
  }
}

TEST_CASE("calls on vectors: values as a user writes them") {
  const Ranks ranks(2);
  sparsecollParams_t scaled = SPARSECOLL_INIT(sparsecollParams_t);
  scaled.outputScale = 0.1;
  CHECK(onEach(ranks, [&](int rank, sparsecollComm_t comm) {
          return addVectors(comm, sparsecollFloat32, rank == 1 ? &scaled : nullptr);
        }) == all(2, sparsecollMismatch));
  CHECK(texts(ranks) == std::vector<std::string>(2, "outputScale: 1 on rank 0, 0.1 on rank 1"));
  CHECK(onEach(ranks, [&](int rank, sparsecollComm_t comm) {
          return addVectors(comm, rank == 1 ? sparsecollFloat64 : sparsecollFloat32, nullptr);
        }) == all(2, sparsecollMismatch));
  CHECK(texts(ranks) == std::vector<std::string>(2, "type: f32 on rank 0, f64 on rank 1"));
}

TEST_CASE("another call: each rank says where it is itself") {
  const Ranks ranks(2);
  CHECK(onEach(ranks, [&](int rank, sparsecollComm_t comm) {
          return rank == 0 ? createAndDestroy({}, comm) : addVectors(comm, sparsecollFloat32, nullptr);
        }) == all(2, sparsecollMismatch));
  const std::string common = "order: rank 1 is in another call than rank 0; this rank is in ";
  CHECK(texts(ranks) == std::vector<std::string>{common + "ReducerCreate", common + "AllReduceVector"});
}
