// Communicators of ranks in several processes, over UCX.
#pragma once

#include <memory>
#include <string>

#include "src/communicator.h"
#include "transports/bootstrap/mesh.h"

namespace sparsecoll {

// Each process may have one rank of a host's; connections are a mesh, and descriptors are limited.
inline constexpr int kMostUcxRanks = 256;

// The configured interface, or what SPARSECOLL_INTERFACE names; empty: neither does.
std::string interfaceOf(const CommunicatorConfig& config);

// Whether ranks may meet as the configuration asks. Errors: Unsupported.
Status checkSecurity(const CommunicatorConfig& config);

// Collective over the exchange's ranks: a control connection for every pair, UCX between them, and a first operation.
// Errors: Unsupported, SystemError, Timeout, PeerFailed, AuthFailed, Mismatch, OutOfMemory.
Result<std::shared_ptr<Communicator>> meetOverUcx(const CommunicatorConfig& config, bootstrap::Exchange& exchange,
                                                  const bootstrap::Key& key, const bootstrap::JobId& job,
                                                  const std::string& interfaceName, const Deadline& deadline);

}  // namespace sparsecoll
