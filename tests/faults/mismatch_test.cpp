// Ranks that disagree get Mismatch, all of them, in the operation in which they do; the failure names field and rank;
// the next operation works (T30 to T37).
#include "tests/support/catch.h"

#include <functional>

#include "tests/support/group.h"

using namespace sparsecoll::test;

namespace {

constexpr uint64_t kLength = 500;

// Long enough never to pass where ranks learn of it as they should, short enough to wait for where they do not.
sparsecollConfig_t patient() {
  sparsecollConfig_t config = SPARSECOLL_INIT(sparsecollConfig_t);
  config.opTimeoutMs = 5000;
  return config;
}

// What one rank asks for.
struct Wish {
  uint64_t n = kLength;
  sparsecollDataType_t type = sparsecollFloat32;
  sparsecollParams_t params = preset("topka", 0.1);
  sparsecollReducerConfig_t config = SPARSECOLL_INIT(sparsecollReducerConfig_t);
};

struct Row {
  const char* field;
  std::function<void(Wish&)> change;
};

const sparsecollSegment_t kHalves[] = {{250, 0, 0, 0}, {250, 0, 0, 0}};
const sparsecollSegment_t kRuled[] = {{250, 0, 1, 0}, {250, 0, 0, 0}};

const double kWarmUp[] = {0.2};

const Row kRows[] = {
    {"n", [](Wish& w) { w.n = kLength + 1; }},
    {"n", [](Wish& w) { w.n = 1; }},
    {"type", [](Wish& w) { w.type = sparsecollBfloat16; }},
    {"type", [](Wish& w) { w.type = sparsecollFloat64; }},
    {"selector", [](Wish& w) { w.params.selector = sparsecollSelectThreshold; }},
    {"collective", [](Wish& w) { w.params.collective = sparsecollCollIndexUnion; }},
    {"collective", [](Wish& w) { w.params.collective = sparsecollCollDense; }},
    {"faithful", [](Wish& w) { w.params.faithful = 1; }},
    {"op", [](Wish& w) { w.params.op = sparsecollAvg; }},
    {"flags", [](Wish& w) { w.params.flags = SPARSECOLL_ACCUMULATE; }},
    {"flags", [](Wish& w) { w.params.flags = SPARSECOLL_NO_RESIDUAL; }},
    {"density", [](Wish& w) { w.params.density = 0.11; }},
    {"density",
     [](Wish& w) {
       w.params.density = 0;
       w.params.k = 50;
     }},
    {"threshold", [](Wish& w) { w.params.threshold = 0.1; }},
    {"inputScale", [](Wish& w) { w.params.inputScale = 2; }},
    {"outputScale", [](Wish& w) { w.params.outputScale = 0.5; }},
    {"momentum", [](Wish& w) { w.params.momentum = 0.9; }},
    {"clipNorm", [](Wish& w) { w.params.clipNorm = 1; }},
    {"residualDecay", [](Wish& w) { w.params.residualDecay = 0.5; }},
    {"seed", [](Wish& w) { w.params.seed = 1; }},
    {"candidates", [](Wish& w) { w.params.candidates = 1; }},
    {"tag", [](Wish& w) { w.params.tag = 77; }},
    {"segments",
     [](Wish& w) {
       w.config.segments = kHalves;
       w.config.segmentCount = 2;
     }},
    {"segments",
     [](Wish& w) {
       w.config.segments = kRuled;
       w.config.segmentCount = 2;
     }},
    {"maxDensity", [](Wish& w) { w.config.maxDensity = 0.5; }},
    {"densitySchedule",
     [](Wish& w) {
       w.config.densitySchedule = kWarmUp;
       w.config.densityScheduleCount = 1;
       w.config.scheduleSteps = 5;
     }},
    {"transactional", [](Wish& w) { w.config.transactional = 1; }},
};

sparsecollResult_t create(const Wish& wish, sparsecollComm_t comm, sparsecollReducer_t* reducer) {
  return sparsecollReducerCreate(reducer, wish.n, wish.type, &wish.params, &wish.config, comm);
}

sparsecollResult_t createAndDestroy(const Wish& wish, sparsecollComm_t comm) {
  sparsecollReducer_t reducer = nullptr;
  const sparsecollResult_t result = create(wish, comm, &reducer);
  if (result != sparsecollSuccess) return reducer == nullptr ? result : sparsecollInternalError;
  return sparsecollReducerDestroy(reducer);
}

sparsecollResult_t addVectors(sparsecollComm_t comm, int which, uint64_t length = kLength,
                              const sparsecollParams_t* params = nullptr, const uint64_t* bounds = nullptr,
                              sparsecollDataType_t type = sparsecollFloat32) {
  SparseVector in(type, length, 2);
  in.add(1, 1);
  SparseVector out(type, length, 64);
  if (which == 0) return sparsecollAllReduceVector(in.view(), out.view(), params, comm, nullptr);
  if (which == 1) return sparsecollAllGatherVector(in.view(), out.view(), comm, nullptr);
  return sparsecollReduceScatterVector(in.view(), out.view(), bounds, comm, nullptr);
}

// All ranks got Mismatch, and each one's failure says in which field and names a rank.
void checkMismatch(const Ranks& ranks, const Results& results, const std::string& field) {
  CHECK(results == all(ranks.count(), sparsecollMismatch));
  for (int rank = 0; rank < ranks.count(); ++rank) {
    const sparsecollFailure_t failure = failureOf(ranks[rank]);
    CHECK(failure.result == sparsecollMismatch);
    CHECK(failure.field == field);
    CHECK(failure.peer >= 0);
    CHECK(failure.peer < ranks.count());
    CHECK(failure.sequence > 0);
    CHECK(std::string(failure.text).size() > 10);
    sparsecollResult_t state = sparsecollInternalError;
    CHECK(sparsecollCommGetAsyncError(ranks[rank], &state) == sparsecollSuccess);
    CHECK(state == sparsecollSuccess);
  }
}

void checkWorks(const Ranks& ranks) {
  REQUIRE(onEach(ranks, [](int, sparsecollComm_t comm) { return createAndDestroy({}, comm); }) ==
          all(ranks.count(), sparsecollSuccess));
}

}  // namespace

TEST_CASE("ReducerCreate: every field that must be alike") {
  const sparsecollConfig_t config = patient();
  for (const int count : {2, 3, 4}) {
    const Ranks ranks(count, &config);
    for (const Row& row : kRows)
      for (int odd = 0; odd < count; ++odd) {
        CAPTURE(count, row.field, odd);
        Wish other;
        row.change(other);
        const Results results = onEach(ranks, [&](int rank, sparsecollComm_t comm) {
          return createAndDestroy(rank == odd ? other : Wish{}, comm);
        });
        checkMismatch(ranks, results, row.field);
        // The one that differs from rank 0; where that is everyone, the first of them.
        CHECK(failureOf(ranks[0]).peer == (odd == 0 ? 1 : odd));
        checkWorks(ranks);
      }
  }
}

TEST_CASE("what is the same in other words is no mismatch") {
  const Ranks ranks(2);
  CHECK(onEach(ranks, [](int rank, sparsecollComm_t comm) {
          Wish wish;
          wish.params.wire = rank == 0 ? sparsecollWireDefault : sparsecollWireSame;
          wish.params.selector = rank == 0 ? sparsecollSelectDefault : sparsecollSelectTopK;
          wish.params.inputScale = rank;  // 0 means 1
          wish.params.outputScale = rank;
          wish.params.collective = rank == 0 ? sparsecollCollAuto : sparsecollCollDense;
          return createAndDestroy(wish, comm);
        }) == all(2, sparsecollSuccess));
}

TEST_CASE("AllReduce: every field of params, n and type") {
  const sparsecollConfig_t config = patient();
  for (const int count : {2, 3}) {
    const Ranks ranks(count, &config);
    for (const Row& row : kRows) {
      Wish other;
      row.change(other);
      if (other.config.densitySchedule != nullptr || other.config.segments != nullptr || other.config.maxDensity != 0 ||
          other.config.transactional != 0)
        continue;
      if (other.params.flags == SPARSECOLL_NO_RESIDUAL) continue;                   // AllReduce never keeps one
      if (other.params.momentum != 0 || other.params.residualDecay != 0) continue;  // nor takes these
      CAPTURE(count, row.field);
      const Results results = onEach(ranks, [&](int rank, sparsecollComm_t comm) {
        const Wish wish = rank == count - 1 ? other : Wish{};
        std::vector<double> vector(wish.n);
        return sparsecollAllReduce(vector.data(), vector.data(), wish.n, wish.type, &wish.params, comm, nullptr);
      });
      checkMismatch(ranks, results, row.field);
      checkWorks(ranks);
    }
  }
}

TEST_CASE("AllReduce of nothing on one rank") {
  const sparsecollConfig_t config = patient();
  const Ranks ranks(2, &config);
  const Results results = onEach(ranks, [&](int rank, sparsecollComm_t comm) {
    const Wish wish;
    std::vector<float> vector(kLength);
    return sparsecollAllReduce(vector.data(), vector.data(), rank == 0 ? 0 : kLength, wish.type, &wish.params, comm,
                               nullptr);
  });
  checkMismatch(ranks, results, "n");
  checkWorks(ranks);
}

TEST_CASE("calls on vectors: length, type, parameters, bounds") {
  const sparsecollConfig_t config = patient();
  sparsecollParams_t average = SPARSECOLL_INIT(sparsecollParams_t);
  average.op = sparsecollAvg;
  sparsecollParams_t scaled = SPARSECOLL_INIT(sparsecollParams_t);
  scaled.outputScale = 3;
  sparsecollParams_t tagged = SPARSECOLL_INIT(sparsecollParams_t);
  tagged.tag = 5;
  const uint64_t bounds[] = {0, 1, 2, 3, kLength};
  for (const int count : {2, 3, 4}) {
    const Ranks ranks(count, &config);
    const auto attempt = [&](const char* field, const std::function<sparsecollResult_t(bool, sparsecollComm_t)>& call) {
      CAPTURE(count, field);
      checkMismatch(ranks, onEach(ranks, [&](int rank, sparsecollComm_t comm) { return call(rank == 1, comm); }),
                    field);
      checkWorks(ranks);
    };
    for (const int which : {0, 1, 2}) {
      attempt("n", [&](bool odd, auto comm) { return addVectors(comm, which, odd ? kLength + 1 : kLength); });
      attempt("type", [&](bool odd, auto comm) {
        return addVectors(comm, which, kLength, nullptr, nullptr, odd ? sparsecollFloat64 : sparsecollFloat32);
      });
    }
    attempt("op", [&](bool odd, auto comm) { return addVectors(comm, 0, kLength, odd ? &average : nullptr); });
    attempt("outputScale", [&](bool odd, auto comm) { return addVectors(comm, 0, kLength, odd ? &scaled : nullptr); });
    attempt("tag", [&](bool odd, auto comm) { return addVectors(comm, 0, kLength, odd ? &tagged : nullptr); });
    if (count == 4)
      attempt("bounds",
              [&](bool odd, auto comm) { return addVectors(comm, 2, kLength, nullptr, odd ? bounds : nullptr); });
  }
}

namespace {

struct Calls {
  const char* name;
  std::function<sparsecollResult_t(sparsecollComm_t)> run;
};

sparsecollResult_t reduceOnce(sparsecollComm_t comm) {
  std::vector<float> vector(kLength);
  const Wish wish;
  return sparsecollAllReduce(vector.data(), vector.data(), kLength, wish.type, &wish.params, comm, nullptr);
}

sparsecollResult_t createWithoutResidual(sparsecollComm_t comm) {
  Wish wish;
  wish.params.flags = SPARSECOLL_NO_RESIDUAL;
  return createAndDestroy(wish, comm);
}

const Calls kOneShots[] = {
    {"AllReduceVector", [](auto comm) { return addVectors(comm, 0); }},
    {"AllGatherVector", [](auto comm) { return addVectors(comm, 1); }},
    {"ReduceScatterVector", [](auto comm) { return addVectors(comm, 2); }},
    {"AllReduce", reduceOnce},
    {"ReducerCreate", [](auto comm) { return createAndDestroy({}, comm); }},
};

}  // namespace

TEST_CASE("different calls at the same place") {
  const sparsecollConfig_t config = patient();
  for (const int count : {2, 3, 4}) {
    const Ranks ranks(count, &config);
    for (const Calls& first : kOneShots)
      for (const Calls& second : kOneShots) {
        if (&first == &second) continue;
        CAPTURE(count, first.name, second.name);
        const Results results = onEach(ranks, [&](int rank, sparsecollComm_t comm) {
          return rank == count - 1 ? second.run(comm) : first.run(comm);
        });
        CHECK(results == all(count, sparsecollMismatch));
        checkWorks(ranks);
      }
  }
}

TEST_CASE("AllReduce against the creation of the very reducer it would make") {
  sparsecollConfig_t config = SPARSECOLL_INIT(sparsecollConfig_t);
  config.opTimeoutMs = 300;
  const Ranks ranks(2, &config);
  CHECK(onEach(ranks, [&](int rank, sparsecollComm_t comm) {
          return rank == 0 ? reduceOnce(comm) : createWithoutResidual(comm);
        }) == all(2, sparsecollMismatch));
}

TEST_CASE("reducers in another order, and a step against other calls") {
  const sparsecollConfig_t config = patient();
  const char* const presets[] = {"dense", "topka", "threshold", "micro", "spardl", "gtopk"};
  for (const int count : {2, 3, 5})
    for (const char* const a : presets)
      for (const char* const b : presets) {
        CAPTURE(count, a, b);
        const Ranks ranks(count, &config);
        const auto make = [&](const char* name, uint64_t n) {
          return std::make_unique<Reducers>(ranks, n, sparsecollFloat32,
                                            preset(name, name == std::string("dense") ? 0 : 0.1));
        };
        // Two alike reducers are still two.
        const auto first = make(a, kLength);
        const auto second = make(b, a == std::string(b) ? kLength : 3 * kLength);
        const auto run = [&](sparsecollReducer_t reducer) {
          std::vector<float> vector(3 * kLength, 1.0f);
          return sparsecollReducerRun(reducer, vector.data(), vector.data(), nullptr);
        };
        const Results swapped = onEach(ranks, [&](int rank, sparsecollComm_t) {
          return run(rank == count - 1 ? (*second)[rank] : (*first)[rank]);
        });
        checkMismatch(ranks, swapped, "order");
        for (const Calls& call : kOneShots) {
          CAPTURE(call.name);
          const Results mixed = onEach(
              ranks, [&](int rank, sparsecollComm_t comm) { return rank == 0 ? run((*first)[rank]) : call.run(comm); });
          checkMismatch(ranks, mixed, "order");
        }
        for (const auto& reducers : {first.get(), second.get()})
          REQUIRE(onEach(ranks, [&](int rank, sparsecollComm_t) { return run((*reducers)[rank]); }) ==
                  all(count, sparsecollSuccess));
      }
}

#ifndef SPARSECOLL_TEST_PAIRS  // ranks over an engine of the caller's have no CommSplit
TEST_CASE("ranks that move different reducers, of which one has a schedule") {
  const sparsecollConfig_t config = patient();
  const Ranks ranks(2, &config);
  sparsecollReducerConfig_t scheduled = SPARSECOLL_INIT(sparsecollReducerConfig_t);
  scheduled.densitySchedule = kWarmUp;
  scheduled.densityScheduleCount = 1;
  scheduled.scheduleSteps = 10;
  const Reducers with(ranks, kLength, sparsecollFloat32, preset("topka", 0.1), &scheduled);
  const Reducers without(ranks, kLength, sparsecollFloat32, preset("topka", 0.1));
  CHECK(onEach(ranks, [&](int rank, sparsecollComm_t comm) {
          sparsecollComm_t made = nullptr;
          sparsecollResult_t result = sparsecollCommSplit(comm, 0, 0, &made, &config);
          if (result != sparsecollSuccess) return result;
          sparsecollReducer_t moved = nullptr;
          result = sparsecollReducerMove(rank == 0 ? with[rank] : without[rank], made, &moved, nullptr);
          if (std::string(failureOf(made).field) != "order") result = sparsecollInternalError;
          (void)sparsecollCommDestroy(made);
          return result;
        }) == all(2, sparsecollMismatch));
}
#endif

TEST_CASE("a wrong argument on one rank has no effect: called again, it meets the others") {
  sparsecollConfig_t config = SPARSECOLL_INIT(sparsecollConfig_t);
  config.opTimeoutMs = 2000;
  for (const char* const wrong : {"misaligned", "overlap", "preserved in place"}) {
    CAPTURE(wrong);
    const Ranks ranks(2, &config);
    Results first(2, sparsecollInvalidArgument);
    const Results second = onEach(ranks, [&](int rank, sparsecollComm_t comm) {
      Wish wish;
      if (wrong == std::string("preserved in place")) wish.params.flags = SPARSECOLL_OUT_PRESERVED;
      std::vector<float> in(kLength + 8, 1.0f);
      std::vector<float> out(kLength + 8);
      const auto call = [&](void* to) {
        return sparsecollAllReduce(in.data(), to, kLength, wish.type, &wish.params, comm, nullptr);
      };
      if (rank == 1) {
        void* bad = reinterpret_cast<std::byte*>(out.data()) + 1;
        if (wrong == std::string("overlap")) bad = in.data() + 1;
        if (wrong == std::string("preserved in place")) bad = in.data();
        first[1] = call(bad);
      }
      return call(out.data());
    });
    CHECK(first[1] == sparsecollInvalidArgument);
    CHECK(second == all(2, sparsecollSuccess));
  }
}

TEST_CASE("wrong arguments of reducer calls on one rank have no effect on the others") {
  sparsecollConfig_t config = SPARSECOLL_INIT(sparsecollConfig_t);
  config.opTimeoutMs = 2000;
  const Ranks ranks(2, &config);
  Results wrong;
  const Results results = onEach(ranks, [&](int rank, sparsecollComm_t comm) {
    Wish bad;
    bad.params.density = 2;
    std::vector<float> in(kLength + 1, 1.0f);
    std::vector<float> out(kLength);
    SparseVector small(sparsecollFloat32, kLength, 1);
    sparsecollReducer_t reducer = nullptr;
    if (rank == 1) wrong.push_back(create(bad, comm, &reducer));
    sparsecollResult_t result = create({}, comm, &reducer);
    if (result != sparsecollSuccess) return result;
    if (rank == 1) {
      wrong.push_back(sparsecollReducerRun(reducer, in.data(), in.data() + 1, nullptr));
      wrong.push_back(sparsecollReducerRunSparse(reducer, in.data(), small.view(), nullptr));
      wrong.push_back(sparsecollReducerSetDensity(reducer, 0.5));
    }
    result = sparsecollReducerRun(reducer, in.data(), out.data(), nullptr);
    const sparsecollResult_t destroyed = sparsecollReducerDestroy(reducer);
    return result == sparsecollSuccess ? destroyed : result;
  });
  CHECK(wrong ==
        Results{sparsecollInvalidArgument, sparsecollInvalidArgument, sparsecollCapacity, sparsecollInvalidArgument});
  CHECK(results == all(2, sparsecollSuccess));
}
