// The engine of messages: ranks in any processes, over requests that a table of functions answers (sparsecollEngine_t).
// The table is the caller's, or one of the library's own engines fills it in.
#pragma once

#include <atomic>
#include <memory>

#include "core/kernels.h"
#include "core/memory.h"
#include "core/transport.h"
#include "transports/engine/peer_watch.h"
#include "transports/engine/messenger_calls.h"
#include "transports/pace.h"

namespace sparsecoll::engine {

// What a rank's engine stands on.
struct EngineSetup {
  int rank = 0;
  int ranks = 1;
  sparsecollTransport_t kind = sparsecollTransportEngine;
  std::shared_ptr<Kernels> kernels;          // of the vectors
  std::shared_ptr<MemoryBudget> budget;      // of the engine's own memory
  uint64_t abortTimeoutMs = 0;               // for the table to give memory back
  std::shared_ptr<std::atomic<bool>> awake;  // set while progress must not sleep; nullptr: nobody asks
  std::shared_ptr<Pace> pace;                // of what this rank sends; nullptr: as fast as the table takes it
  MessengerCalls calls;                      // of a table of the library's own
};

// Local: the first operation meets the peers. table: checked.
// watch: nullptr if the engine has none; told when this rank leaves or aborts.
// Errors: Unsupported, OutOfMemory.
Result<std::unique_ptr<Transport>> makeTransport(const EngineSetup& setup, const sparsecollEngine_t& table,
                                                 std::unique_ptr<PeerWatch> watch);

// From now on the table is released with the transport; until then it is its maker's.
void takeOver(Transport& transport);

}  // namespace sparsecoll::engine
