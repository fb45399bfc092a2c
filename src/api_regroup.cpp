// C shims: communicators of some of another one's ranks, and reducers that move to them.
#include "src/guard.h"
#include "src/regroup.h"
#include "src/tables.h"

using namespace sparsecoll;

sparsecollResult_t sparsecollCommSplit(sparsecollComm_t comm, int color, int key, sparsecollComm_t* newComm,
                                       const sparsecollConfig_t* config) {
  return guard("CommSplit", [&]() -> Status {
    SC_TRY(const auto live, communicators().find(comm));
    if (newComm == nullptr) return invalid("newComm is NULL");
    if (color < SPARSECOLL_NO_COLOR) return invalid("color is {}", color);
    SC_TRY(const CommunicatorConfig read, configOf(*live, config));
    CommunicatorPlace place(communicators());  // once the ranks have met there is no way back
    SC_TRY(auto made, live->remember("CommSplit", [&] {
      auto split = splitRanks(live, color, key, read);
      // Peers that went away may have done so because of this rank's own abort.
      if (!split.ok() && live->state() == sparsecollAborted)
        split = fail(sparsecollAborted, "the communicator was aborted");
      return split;
    }));
    *newComm = made != nullptr ? place.fill(std::move(made)) : nullptr;
    return {};
  });
}

sparsecollResult_t sparsecollCommShrink(sparsecollComm_t comm, const int* excludedRanks, int count,
                                        sparsecollComm_t* newComm, const sparsecollConfig_t* config) {
  return guard("CommShrink", [&]() -> Status {
    SC_TRY(const auto live, communicators().find(comm));
    if (newComm == nullptr) return invalid("newComm is NULL");
    if (count < 0 || (count > 0 && excludedRanks == nullptr)) return invalid("count is {}", count);
    for (int i = 0; i < count; ++i) {
      const int rank = excludedRanks[i];
      if (rank < 0 || rank >= live->ranks()) return invalid("excludedRanks[{}] is {} of {}", i, rank, live->ranks());
      if (rank == live->rank()) return invalid("excludedRanks[{}] is this rank", i);
    }
    SC_TRY(const CommunicatorConfig read, configOf(*live, config));
    const uint64_t call = live->nextShrink();  // also of one that then finds no memory
    CommunicatorPlace place(communicators());
    std::vector<bool> excluded(static_cast<size_t>(live->ranks()), false);
    for (int i = 0; i < count; ++i) excluded[static_cast<size_t>(excludedRanks[i])] = true;
    SC_TRY(auto made, live->remember("CommShrink", [&] { return shrinkRanks(live, call, excluded, read); }));
    *newComm = place.fill(std::move(made));
    return {};
  });
}

sparsecollResult_t sparsecollReducerMove(sparsecollReducer_t reducer, sparsecollComm_t comm, sparsecollReducer_t* moved,
                                         int* steppedBack) {
  return guard("ReducerMove", [&]() -> Status {
    SC_TRY(const auto from, reducers().find(reducer));
    SC_TRY(const auto live, communicators().find(comm));
    if (moved == nullptr) return invalid("moved is NULL");
    ReducerPlace place(reducers());
    SC_TRY(const AnyReducer::Moved made, from->moveTo(live));
    *moved = place.fill(made.reducer);
    if (steppedBack != nullptr) *steppedBack = made.steppedBack ? 1 : 0;
    return {};
  });
}
