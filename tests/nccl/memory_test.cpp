// The host's memory runs out at the i-th allocation of a call on one rank over NCCL, for every i until the call
// succeeds (T46). OutOfMemory has no effect: that rank calls again and all is well, for the other one too.
#include <functional>

#include "tests/nccl/nccl_ranks.h"
#include "tests/support/poor_meeting.h"

using namespace sparsecoll::test;

namespace {

constexpr uint64_t kLength = 2000;
constexpr uint64_t kMost = 2000;  // allocations of a call

// The result of a call of which the i-th allocation is refused; whether there was one.
sparsecollResult_t refusing(uint64_t i, bool& refused, const std::function<sparsecollResult_t()>& call) {
  memory::refuseAfter(i);
  const sparsecollResult_t result = call();
  refused = memory::refused();
  memory::refuseNone();
  return result;
}

struct Call {
  const char* name;
  bool collective;
  std::function<sparsecollResult_t(const NcclRanks&, int rank, sparsecollReducer_t)> run;
};

sparsecollResult_t create(const sparsecollParams_t& params, sparsecollComm_t comm) {
  sparsecollReducer_t reducer = nullptr;
  const sparsecollResult_t result =
      sparsecollReducerCreate(&reducer, kLength, sparsecollFloat32, &params, nullptr, comm);
  memory::refuseNone();  // the call is over
  return result == sparsecollSuccess ? sparsecollReducerDestroy(reducer) : result;
}

sparsecollResult_t roundTrip(sparsecollReducer_t reducer) {
  static thread_local std::byte blob[32768];
  size_t bytes = sizeof blob;
  const sparsecollResult_t result = sparsecollReducerExport(reducer, blob, &bytes, nullptr);
  return result == sparsecollSuccess ? sparsecollReducerImport(reducer, blob, bytes, nullptr) : result;
}

// Made before memory runs out.
const sparsecollParams_t kTopK = preset("topka", 0.05);
const sparsecollParams_t kSparDL = preset("spardl", 0.05);
const sparsecollParams_t kDense = preset("dense", 0);

const Call kCalls[] = {
    {"ReducerCreate topka", true, [](auto& ranks, int rank, auto) { return create(kTopK, ranks[rank]); }},
    {"ReducerCreate spardl", true, [](auto& ranks, int rank, auto) { return create(kSparDL, ranks[rank]); }},
    {"ReducerCreate dense", true, [](auto& ranks, int rank, auto) { return create(kDense, ranks[rank]); }},
    {"Export and Import", false, [](auto&, int, auto reducer) { return roundTrip(reducer); }},
    {"SetDensity", false, [](auto&, int, auto reducer) { return sparsecollReducerSetDensity(reducer, 0.05); }},
};

}  // namespace

TEST_CASE("memory runs out while ranks meet over NCCL: that rank is told, and no other has a communicator") {
  auto config = SPARSECOLL_INIT(sparsecollConfig_t);
  config.transport = sparsecollTransportNccl;
  const simt::QueuesFor queues(kPoorMeetingRanks);
  checkPoorMeeting(config, 0, 200, 4, [] { CHECK(fake::aliveCount() == 0); });
  checkNoMisuse();
}

TEST_CASE("memory runs out in a call over NCCL") {
  const NcclRanks ranks(2);
  REQUIRE(ranks.made() == all(2, sparsecollSuccess));
  NcclGroup group(ranks, kLength, sparsecollFloat32, kTopK);
  REQUIRE(group.step() == all(2, sparsecollSuccess));
  for (const Call& call : kCalls) {
    bool refused = true;
    uint64_t i = 0;
    for (; refused; ++i) {
      REQUIRE(i < kMost);
      CAPTURE(call.name, i);
      Results first = all(2, sparsecollSuccess);
      const Results last = ranks.each([&](int rank) {
        const auto run = [&] { return call.run(ranks, rank, group.reducer(rank)); };
        if (rank == 0) {
          if (!call.collective) return sparsecollSuccess;
          first[0] = run();
          return first[0] == sparsecollMismatch ? run() : first[0];
        }
        first[1] = refusing(i, refused, run);
        return first[1] == sparsecollOutOfMemory ? run() : first[1];
      });
      CAPTURE(first);
      CHECK(last == all(2, sparsecollSuccess));
      CHECK(group.step() == all(2, sparsecollSuccess));
    }
    CHECK(i > 1);
  }
  checkNothingLeft();
}

TEST_CASE("memory runs out in a step over NCCL") {
  for (const sparsecollParams_t& params : {kDense, kTopK, kSparDL}) {
    const NcclRanks ranks(2);
    REQUIRE(ranks.made() == all(2, sparsecollSuccess));
    NcclGroup group(ranks, kLength, sparsecollFloat32, params);
    REQUIRE(group.step() == all(2, sparsecollSuccess));
    bool refused = true;
    for (uint64_t i = 0; refused; ++i) {
      REQUIRE(i < kMost);
      CAPTURE(i, group.count());
      Results first = all(2, sparsecollSuccess);
      const Results last = ranks.each([&](int rank) {
        const auto run = [&] { return group.run(rank); };
        const auto r = static_cast<size_t>(rank);
        first[r] = rank == 1 ? refusing(i, refused, run) : run();
        const bool again = first[r] == (rank == 1 ? sparsecollOutOfMemory : sparsecollMismatch);
        const sparsecollResult_t ran = again ? run() : first[r];
        return ran == sparsecollSuccess ? sparsecollCommWait(ranks[rank], ranks.stream(rank), 60000) : ran;
      });
      CAPTURE(first);
      CHECK(last == all(2, sparsecollSuccess));
      CHECK(group.step() == all(2, sparsecollSuccess));
    }
    checkNothingLeft();
  }
}
