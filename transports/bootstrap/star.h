// The exchange of ranks that share a unique id, or a place to meet: all of them connect to rank 0, which hands every
// part on to everybody.
#pragma once

#include <deque>
#include <functional>
#include <memory>

#include "transports/bootstrap/exchange.h"
#include "transports/bootstrap/lobby.h"
#include "transports/bootstrap/place.h"
#include "transports/bootstrap/unique_id.h"

namespace sparsecoll::bootstrap {

// Returns once all ranks have come and have proven that they hold the id. Errors: InvalidUsage (the id was used, or is
// another host's loopback), AuthFailed, Mismatch (ranks, version), Timeout (names the ranks that have not come).
// withdrawn: whether rank 0 listens there no more and never will, asked again and again while it is not found; then the
// search ends with InvalidUsage.
Result<std::unique_ptr<Exchange>> meet(const Invitation& invitation, int rank, int ranks, const Deadline& deadline,
                                       const std::function<bool()>& withdrawn = [] { return false; });

// The same at a place that all ranks know: rank 0 listens there, the others try all its ports until one is of this job.
// Of ranks that claim the same number the first one that holds the key is admitted. Errors: AuthFailed, Mismatch,
// Timeout (names the ranks that have not come), SystemError (rank 0 finds no port).
Result<std::unique_ptr<Exchange>> meetAt(const Place& place, const Key& key, const JobId& job, int rank, int ranks,
                                         const Deadline& deadline);

// As other ranks are told why this one gives up: that it has no memory is nothing that they could free.
Failure toldToOthers(Failure own);
// A failure as it travels. Errors: Corrupted.
std::vector<std::byte> writeVerdict(const Failure& failure);
Result<Failure> readVerdict(Bytes payload);

}  // namespace sparsecoll::bootstrap
