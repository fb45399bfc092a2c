// Reducers that have moved to a communicator of the ranks that are left.
#pragma once

#include <vector>

#include "tests/support/group.h"

namespace sparsecoll::test {

struct Moved {
  std::vector<sparsecollComm_t> comms;
  std::vector<sparsecollReducer_t> reducers;  // nullptr: the rank is gone
  std::vector<int> steppedBack;

  explicit Moved(int ranks)
      : comms(static_cast<size_t>(ranks)), reducers(comms.size()), steppedBack(comms.size(), -1) {}
  Moved(const Moved&) = delete;
  Moved& operator=(const Moved&) = delete;
  ~Moved() {
    for (sparsecollReducer_t reducer : reducers) (void)sparsecollReducerDestroy(reducer);
    for (sparsecollComm_t comm : comms) (void)sparsecollCommDestroy(comm);
  }

  sparsecollResult_t shrink(int rank, sparsecollComm_t comm, sparsecollReducer_t from,
                            const std::vector<int>& excluded) {
    const auto r = static_cast<size_t>(rank);
    const sparsecollResult_t result =
        sparsecollCommShrink(comm, excluded.data(), static_cast<int>(excluded.size()), &comms[r], nullptr);
    if (result != sparsecollSuccess) return result;
    return sparsecollReducerMove(from, comms[r], &reducers[r], &steppedBack[r]);
  }
  uint64_t lost() const {
    uint64_t all = 0;
    for (sparsecollReducer_t reducer : reducers)
      if (reducer != nullptr) all += statsOf(reducer).entriesLost;
    return all;
  }
};

}  // namespace sparsecoll::test
