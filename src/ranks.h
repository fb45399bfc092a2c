// Communicators of ranks in several processes, over UCX.
#pragma once

#include <memory>
#include <string>

#include "src/communicator.h"
#include "transports/bootstrap/mesh.h"
#include "transports/engine.h"

namespace sparsecoll {

// Each process may have one rank of a host's; connections are a mesh, and descriptors are limited.
inline constexpr int kMostUcxRanks = 256;

// The configured interface, or what SPARSECOLL_INTERFACE names; empty: neither does.
std::string interfaceOf(const CommunicatorConfig& config);

// Over an engine of messages, of which place says rank, ranks and kind. device: -1 for vectors in host memory. Where it
// fails the table is its maker's still. Errors: Unsupported, CudaError, SystemError, Timeout, PeerFailed, Mismatch,
// OutOfMemory.
Result<std::shared_ptr<Communicator>> meetOverEngine(const CommunicatorConfig& config, engine::Place place,
                                                     const sparsecollEngine_t& table,
                                                     std::unique_ptr<engine::PeerWatch> watch, int device);

// Whether ranks may meet as the configuration asks. Errors: Unsupported.
Status checkSecurity(const CommunicatorConfig& config);

// Collective over the exchange's ranks: a control connection for every pair, UCX between them, and a first operation.
// device: as for meetOverEngine. Errors: those, and AuthFailed.
Result<std::shared_ptr<Communicator>> meetOverUcx(const CommunicatorConfig& config, bootstrap::Exchange& exchange,
                                                  const bootstrap::Key& key, const bootstrap::JobId& job,
                                                  const std::string& interfaceName, const Deadline& deadline,
                                                  int device = -1);

}  // namespace sparsecoll
