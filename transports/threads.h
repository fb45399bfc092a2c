// The in-process engine: ranks are threads of one process and read each other's frames where they lie.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "core/kernels.h"
#include "core/memory.h"
#include "core/transport.h"

namespace sparsecoll {

// Transports of a new group, one a rank. kernels: each rank's; they may be the same, which then are used by several
// threads at once. budgets: where each rank's windows are accounted.
Result<std::vector<std::unique_ptr<Transport>>> makeThreadsTransports(
    std::span<const std::shared_ptr<Kernels>> kernels, std::vector<std::shared_ptr<MemoryBudget>> budgets);

// What some ranks of a group make their own from.
struct Regrouping {
  uint64_t tag = 0;          // which time it is; the same on all of them
  std::vector<bool> wanted;  // by rank: who is to come
  std::vector<int> order;    // the ranks in the order of their new numbers
  bool dropsGone = false;    // who has destroyed its communicator need not come
  uint64_t own = 0;          // a number of this rank's
};
struct Regrouped {
  std::unique_ptr<Transport> transport;
  uint64_t lowest = 0;  // of all members' numbers
};

// Collective over who is wanted. transport: of makeThreadsTransports, with kernels in host memory; it may be down.
// Errors: Timeout (names who has not come), PeerFailed.
Result<Regrouped> regroupThreads(Transport& transport, const Regrouping& call, std::shared_ptr<Kernels> kernels,
                                 std::shared_ptr<MemoryBudget> budget, const Deadline& deadline);

}  // namespace sparsecoll
