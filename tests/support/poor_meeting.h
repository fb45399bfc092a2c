// Ranks that meet by an id, one of which is refused the i-th of its allocations (malloc_hooks.h), for every i (every.h)
// until there is none: it is told, and no other rank has a communicator.
#pragma once

#include <functional>
#include <string>

#include "tests/support/catch.h"
#include "tests/support/every.h"
#include "tests/support/group.h"
#include "tests/support/malloc_hooks.h"

namespace sparsecoll::test {

// config: with an initTimeoutMs that some attempts wait for: a rank that has not come yet is not known to have failed.
// some: of so many allocations one is refused. after: of every attempt.
inline void checkPoorMeeting(const sparsecollConfig_t& config, int device, int64_t some,
                             const std::function<void()>& after) {
  constexpr int kRanks = 2;
  constexpr int64_t kMost = 5000;
  const Results good = all(kRanks, sparsecollSuccess);
  bool refused = false;
  std::string told;  // to the poor one
  const auto meet = [&](int poor, int64_t skip) {
    sparsecollUniqueId_t id{};
    REQUIRE(sparsecollGetUniqueId(&id, &config) == sparsecollSuccess);
    sparsecollComm_t comms[kRanks] = {};
    Results results(good.size());
    RankThreads::ofProcess().run(kRanks, [&](int rank) {
      const auto r = static_cast<size_t>(rank);
      if (rank == poor) memory::refuseAfter(static_cast<uint64_t>(skip));
      results[r] = sparsecollCommInitRank(&comms[r], kRanks, &id, rank, device, &config);
      if (rank == poor) refused = memory::refused();
      memory::refuseNone();
      if (rank == poor) told = sparsecollGetLastError();
    });
    for (sparsecollComm_t comm : comms) (void)sparsecollCommDestroy(comm);
    after();
    return results;
  };
  REQUIRE(meet(-1, 0) == good);  // with what a process makes once
  for (const size_t poor : {1u, 0u}) {
    int late = 0;  // attempts of a machine that was too busy
    const int64_t each = apart(some);
    int64_t i = someFirst(each);
    do {
      REQUIRE(i < kMost);
      CAPTURE(poor, i);
      const Results results = meet(static_cast<int>(poor), i);
      if (!refused && results != good) {
        REQUIRE(++late < 100);
        refused = true;
        continue;
      }
      i += each;
      if (results == good) continue;
      CAPTURE(told);
      // The system's word for no memory for a thread is another one.
      CHECK((results[poor] == sparsecollOutOfMemory || results[poor] == sparsecollSystemError));
      CHECK(results[1 - poor] != sparsecollSuccess);
    } while (refused);
    CHECK(i > 10);
  }
}

}  // namespace sparsecoll::test
