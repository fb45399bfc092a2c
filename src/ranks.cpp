#include "src/ranks.h"

#include <cstdlib>

#include "host/host_kernels.h"
#include "transports/bootstrap/control.h"
#include "transports/engine.h"
#include "transports/ucx.h"

namespace sparsecoll {

std::string interfaceOf(const CommunicatorConfig& config) {
  if (!config.interfaceName.empty()) return config.interfaceName;
  const char* const named = std::getenv("SPARSECOLL_INTERFACE");
  return named != nullptr ? named : "";
}

Status checkSecurity(const CommunicatorConfig& config) {
  if (config.security == sparsecollSecurityNone)
    return unsupported("config.security is None: connections of this version are always authenticated");
  return {};
}

Result<std::shared_ptr<Communicator>> meetOverUcx(const CommunicatorConfig& config, bootstrap::Exchange& exchange,
                                                  const bootstrap::Key& key, const bootstrap::JobId& job,
                                                  const std::string& interfaceName, const Deadline& deadline) {
  std::unique_ptr<ucx::Messenger> messenger;
  const auto open = [&](bool oneHost) -> Result<std::vector<std::byte>> {
    SC_TRY(messenger, ucx::makeMessenger(oneHost));
    return messenger->address();
  };
  SC_TRY(bootstrap::Mesh mesh, bootstrap::makeMesh(exchange, {key, job, interfaceName, open}, deadline));
  SC_TRY(messenger->connect(mesh.cards, mesh.rank));
  engine::Place place;
  place.rank = mesh.rank;
  place.ranks = mesh.ranks;
  place.kind = sparsecollTransportUcx;
  place.kernels = host::makeHostKernels(host::bestIsa(), hostMemory(config));
  place.budget = std::make_shared<MemoryBudget>(config.workspaceLimitBytes);
  place.abortTimeoutMs = config.abortTimeoutMs;
  SC_TRY(auto control, bootstrap::Control::make(std::move(mesh), bootstrap::controlTimes()));
  SC_TRY(auto transport, engine::makeTransport(place, messenger->table(), std::make_unique<bootstrap::Watch>(control)));
  SC_TRY(auto made, Communicator::meet(config, place.kernels, place.budget, std::move(transport), -1));
  engine::takeOver(made->transport());
  (void)messenger.release();
  made->watchBy(std::move(control));
  return made;
}

}  // namespace sparsecoll
