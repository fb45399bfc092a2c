// The exchange of ranks that share a unique id: all of them connect to rank 0, which hands every part on to everybody.
#pragma once

#include <deque>
#include <memory>

#include "transports/bootstrap/exchange.h"
#include "transports/bootstrap/lobby.h"
#include "transports/bootstrap/unique_id.h"

namespace sparsecoll::bootstrap {

// Returns once all ranks have come and have proven that they hold the id. Errors: InvalidUsage (the id was used, or is
// another host's loopback), AuthFailed, Mismatch (ranks, version), Timeout (names the ranks that have not come).
Result<std::unique_ptr<Exchange>> meet(const Invitation& invitation, int rank, int ranks, const Deadline& deadline);

// A failure as it travels. Errors: Corrupted.
std::vector<std::byte> writeVerdict(const Failure& failure);
Result<Failure> readVerdict(Bytes payload);

}  // namespace sparsecoll::bootstrap
