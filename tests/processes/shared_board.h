// An all-gather of processes by shared memory, as a caller's own means to meet.
#pragma once

#include "tests/processes/processes.h"

namespace sparsecoll::test {

// Made before the ranks are forked; for one meeting.
class SharedBoard {
 public:
  SharedBoard()
      : turns_(static_cast<Turn*>(
            mmap(nullptr, kTurns * sizeof(Turn), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}
  ~SharedBoard() { munmap(turns_, kTurns * sizeof(Turn)); }
  SharedBoard(const SharedBoard&) = delete;
  SharedBoard& operator=(const SharedBoard&) = delete;

  sparsecollResult_t meet(sparsecollComm_t* comm, int rank, int ranks, const sparsecollConfig_t& config) {
    rank_ = rank;
    ranks_ = ranks;
    sparsecollOob_t oob = SPARSECOLL_INIT(sparsecollOob_t);
    oob.user = this;
    oob.allgather = [](void* self, const void* send, void* recv, size_t bytesPerRank, uint64_t timeoutMs) {
      const double end = nowMs() + static_cast<double>(timeoutMs);
      return static_cast<SharedBoard*>(self)->allgather(send, static_cast<char*>(recv), bytesPerRank, end);
    };
    return sparsecollCommInitOob(comm, ranks, rank, SPARSECOLL_HOST, &oob, &config);
  }

 private:
  static constexpr size_t kTurns = 64, kMostBytes = 4096;
  struct Turn {
    std::atomic<int> arrived;
    char bytes[kMostProcesses][kMostBytes];
  };

  int allgather(const void* send, char* recv, size_t bytesPerRank, double endMs) {
    if (bytesPerRank > kMostBytes || turn_ == kTurns) return 1;
    Turn& turn = turns_[turn_++];
    std::memcpy(turn.bytes[rank_], send, bytesPerRank);
    ++turn.arrived;
    for (; turn.arrived < ranks_; usleep(200))
      if (nowMs() > endMs) return 1;
    for (int rank = 0; rank < ranks_; ++rank)
      std::memcpy(recv + static_cast<size_t>(rank) * bytesPerRank, turn.bytes[rank], bytesPerRank);
    return 0;
  }

  Turn* const turns_;
  int rank_ = 0, ranks_ = 0;
  size_t turn_ = 0;
};

}  // namespace sparsecoll::test
