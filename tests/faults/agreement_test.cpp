// Every field of every struct that comes in, walked: in which one ranks differ they are told by its name, all of them
// (T30 to T38), or it may differ, for the reason that its row gives. A new field without a row fails the walk.
#include "tests/support/fields.h"

#include <memory>

#include "tests/support/catch.h"
#include "tests/support/group.h"

using namespace sparsecoll::test;
using namespace sparsecoll::test::fields;

namespace {

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
  for (const auto& rows : kOfReducers)
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
