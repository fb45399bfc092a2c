// Ranks over NCCL that differ in a field (tests/support/fields.h): told by its name, or as good as others (T38).
#include <string>

#include "tests/nccl/nccl_ranks.h"
#include "tests/support/fields.h"

using namespace sparsecoll::test;
using namespace sparsecoll::test::fields;

namespace {

// Rows that say nothing here: the engine is named and vectors lie on a device, where that allocator takes no memory and
// `auto`, whose plan it is, does not go over NCCL.
bool applies(const Row& row) {
  const std::string member = row.member;
  for (const char* const other : {"backend", "transport", "allocator", "plan", "planCount"})
    if (member == other) return false;
  return row.change != nullptr;
}

// With a configuration of its own for each rank.
StreamRanks::Make madeWith(const std::vector<Given>& given) {
  std::vector<sparsecollConfig_t> configs;
  for (const Given& one : given) {
    configs.push_back(one.config);
    configs.back().transport = sparsecollTransportNccl;
  }
  sparsecollUniqueId_t id{};
  REQUIRE(sparsecollGetUniqueId(&id, &configs[0]) == sparsecollSuccess);
  return [=](int rank, sparsecollComm_t* comm) {
    return sparsecollCommInitRank(comm, kCount, &id, rank, 0, &configs[static_cast<size_t>(rank)]);
  };
}

Results stepOf(const NcclRanks& ranks, const std::vector<Given>& given) {
  return ranks.each(
      [&](int rank) { return oneStep(given[static_cast<size_t>(rank)], ranks[rank], ranks.stream(rank)); });
}

}  // namespace

TEST_CASE("a communicator's config over NCCL: each field in turn") {
  for (const Row& row : kConfig) {
    if (!applies(row)) continue;
    CAPTURE(row.member);
    const NcclRanks ranks(kCount, nullptr, madeWith(givenBy(row, 2)));
    if (row.field == nullptr) {
      CHECK(ranks.made() == all(kCount, sparsecollSuccess));
      CHECK(stepOf(ranks, std::vector<Given>(kCount)) == all(kCount, sparsecollSuccess));
    } else {
      CHECK(ranks.made() == all(kCount, sparsecollMismatch));
    }
  }
  checkNothingLeft();
}

TEST_CASE("a reducer's arguments, params and config over NCCL: each field in turn") {
  const NcclRanks ranks(kCount, nullptr, madeWith(std::vector<Given>(kCount)));
  REQUIRE(ranks.made() == all(kCount, sparsecollSuccess));
  for (const auto& rows : kOfReducers)
    for (const Row& row : rows) {
      if (!applies(row)) continue;
      CAPTURE(row.member);
      const Results results = stepOf(ranks, givenBy(row, 2));
      if (row.field == nullptr) {
        CHECK(results == all(kCount, sparsecollSuccess));
        continue;
      }
      CHECK(results == all(kCount, sparsecollMismatch));
      for (int rank = 0; rank < kCount; ++rank) CHECK(std::string(failureOf(ranks[rank]).field) == row.field);
      CHECK(stepOf(ranks, std::vector<Given>(kCount)) == all(kCount, sparsecollSuccess));  // the next call works
    }
  checkNothingLeft();
}
