// How the ranks of a launched job meet, as the environment tells (sparsecoll/launch.h). Launchers tell each rank its
// number. Those with PMIx or PMI hand on where rank 0 is, and a key. Most others say where, and MASTER_PORT is usually
// taken by torch's store: so rank 0 listens at one of some ports behind it, and the others try them all. initTimeoutMs
// cannot bound the resolver.
#pragma once

#include <functional>
#include <memory>

#include "src/communicator.h"
#include "transports/bootstrap/mesh.h"

namespace sparsecoll {

struct Meeting {
  std::unique_ptr<bootstrap::Exchange> exchange;
  std::function<Result<bootstrap::MeshSecret>()> secret;  // what a mesh is made by; collective, once
  Deadline deadline;                                      // for all that the ranks do until they have a communicator
};

// Waits for rank 0; the others wait a little longer, to hear what it has to say at its end.
Deadline deadlineToMeet(const CommunicatorConfig& config, int rank);

// Collective over the job's ranks, which call it equally often. Errors: Unsupported (no place to meet), InvalidArgument
// (a variable, the secret file, an interface), SystemError, and those of bootstrap::meet and meetAt.
Result<Meeting> meetLaunched(const CommunicatorConfig& config);

}  // namespace sparsecoll
