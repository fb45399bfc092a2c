// Ranks that meet by an id, one of which is refused the i-th of its allocations (malloc_hooks.h), for every i (every.h)
// until there is none: it is told, and no other rank has a communicator.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "tests/support/catch.h"
#include "tests/support/every.h"
#include "tests/support/group.h"
#include "tests/support/malloc_hooks.h"

namespace sparsecoll::test {

inline constexpr int kPoorMeetingRanks = 3;

// initTimeoutMs: for which some attempts wait, since a rank that has not come yet is not known to have failed.
// some: of so many allocations one is refused. after: of every attempt.
inline void checkPoorMeeting(sparsecollConfig_t config, int device, uint64_t initTimeoutMs, int64_t some,
                             const std::function<void()>& after) {
  using Clock = std::chrono::steady_clock;
  constexpr int64_t kMost = 5000;
  const Results good = all(kPoorMeetingRanks, sparsecollSuccess);
  bool refused = false;
  std::string told;        // to the poor one
  Clock::duration took{};  // until its call was over
  const auto meet = [&](int poor, int64_t skip) {
    sparsecollUniqueId_t id{};
    REQUIRE(sparsecollGetUniqueId(&id, &config) == sparsecollSuccess);
    sparsecollComm_t comms[kPoorMeetingRanks] = {};
    Results results(good.size());
    const auto begin = Clock::now();  // a thread of a busy machine may begin when others have given up
    RankThreads::ofProcess().run(kPoorMeetingRanks, [&](int rank) {
      const auto r = static_cast<size_t>(rank);
      if (rank == poor) memory::refuseAfter(static_cast<uint64_t>(skip));
      results[r] = sparsecollCommInitRank(&comms[r], kPoorMeetingRanks, &id, rank, device, &config);
      if (rank != poor) return;
      refused = memory::refused();
      memory::refuseNone();
      told = sparsecollGetLastError();
      took = Clock::now() - begin;
    });
    for (sparsecollComm_t comm : comms) (void)sparsecollCommDestroy(comm);
    after();
    return results;
  };
  config.initTimeoutMs = 60000;
  REQUIRE(meet(-1, 0) == good);  // with what a process makes once
  config.initTimeoutMs = initTimeoutMs;
  for (const int poor : {1, 0}) {
    const int64_t each = apart(some);
    int late = 0;  // attempts of a machine that was too busy
    for (int64_t i = someFirst(each);;) {
      REQUIRE(i < kMost);
      CAPTURE(poor, i);
      const Results results = meet(poor, i);
      const sparsecollResult_t own = results[static_cast<size_t>(poor)];
      // Once messages have begun memory is not told from what else fails, nor is it where a thread cannot start.
      const bool isTold = own == sparsecollOutOfMemory || own == sparsecollSystemError;
      CAPTURE(told, results, refused);
      if (results != good && !isTold && took > std::chrono::milliseconds(initTimeoutMs) / 2) {
        REQUIRE(++late < 20);
        continue;
      }
      if (results != good) {
        CHECK((refused && isTold));
        for (int rank = 0; rank < kPoorMeetingRanks; ++rank) {
          const sparsecollResult_t other = results[static_cast<size_t>(rank)];
          if (rank != poor) CHECK((other == sparsecollPeerFailed || other == sparsecollTimeout));
        }
      }
      if (!refused) break;
      i += each;
    }
  }
}

}  // namespace sparsecoll::test
