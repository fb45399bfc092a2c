// Communicators of ranks in several processes, once it is known over which engine.
#pragma once

#include <memory>
#include <string>

#include "src/communicator.h"
#include "transports/bootstrap/mesh.h"
#include "transports/engine.h"
#include "transports/nccl.h"

namespace sparsecoll {

// Each process may have one rank of a host's; connections are a mesh, and descriptors are limited.
inline constexpr int kMostMeshRanks = 256;

// The configured interface, or what SPARSECOLL_INTERFACE names; empty: neither does.
std::string interfaceOf(const CommunicatorConfig& config);

// Over an engine of messages, of which setup says rank, ranks and kind. Where it
// fails the table is its maker's still. Errors: Unsupported, CudaError, SystemError, Timeout, PeerFailed, Mismatch,
// OutOfMemory.
Result<std::shared_ptr<Communicator>> meetOverEngine(const CommunicatorConfig& config, engine::EngineSetup setup,
                                                     const sparsecollEngine_t& table,
                                                     std::unique_ptr<engine::PeerWatch> watch, int device,
                                                     const Deadline& deadline);

// Collective over the exchange's ranks: a control connection for every pair, UCX or TCP between them, and a first
// operation. device: as for meetOverEngine. Errors: those, and AuthFailed.
Result<std::shared_ptr<Communicator>> meetOverMesh(sparsecollTransport_t engine, const CommunicatorConfig& config,
                                                   bootstrap::Exchange& exchange, const bootstrap::MeshSecret& secret,
                                                   const std::string& interfaceName, const Deadline& deadline,
                                                   int device = SPARSECOLL_HOST);

// Collective over the exchange's ranks, by an ncclUniqueId of rank 0's. What keeps a rank from joining all of them get.
// Errors: NCCL's, Unsupported, InvalidArgument, CudaError, OutOfMemory, Timeout, and the exchange's.
Result<std::shared_ptr<Communicator>> meetOverNccl(const CommunicatorConfig& config, bootstrap::Exchange& exchange,
                                                   const Deadline& deadline, int device);
// The same over an NCCL communicator of the caller's. split: over a copy of it.
Result<std::shared_ptr<Communicator>> adoptNccl(const CommunicatorConfig& config, ncclComm* comm, bool split);

}  // namespace sparsecoll
