#include "src/ranks.h"

#include <cstdlib>

#include "core/limits.h"
#include "cuda/cuda_kernels.h"
#include "host/host_kernels.h"
#include "transports/bootstrap/control.h"
#include "transports/staged.h"
#include "transports/ucx.h"

namespace sparsecoll {

std::string interfaceOf(const CommunicatorConfig& config) {
  if (!config.interfaceName.empty()) return config.interfaceName;
  const char* const named = std::getenv("SPARSECOLL_INTERFACE");
  return named != nullptr ? named : "";
}

Result<std::shared_ptr<Communicator>> meetOverEngine(const CommunicatorConfig& config, engine::Place place,
                                                     const sparsecollEngine_t& table,
                                                     std::unique_ptr<engine::PeerWatch> watch, int device) {
  const bool onDevice = device >= 0;
  if (onDevice && place.ranks > kMostDeviceRanks)
    return unsupported("{} ranks on devices, at most {} can be", place.ranks, kMostDeviceRanks);
  const cuda::OnDevice current(device);
  std::shared_ptr<Kernels> kernels;
  if (onDevice) {
    SC_TRY(kernels, cuda::makeCudaKernels(device, memoryTerms(config)));
  }
  // A caller's allocator is for the memory space of the vectors.
  place.kernels = host::makeHostKernels(host::bestIsa(), onDevice ? nullptr : hostMemory(config));
  place.budget = std::make_shared<MemoryBudget>(config.workspaceLimitBytes);
  place.abortTimeoutMs = config.abortTimeoutMs;
  SC_TRY(auto transport, engine::makeTransport(place, table, std::move(watch)));
  Transport& engine = *transport;
  if (onDevice) {
    SC_TRY(auto memory, staged::pinnedMemory(device));
    const staged::Place over{kernels, host::makeHostKernels(host::bestIsa(), std::move(memory)), place.budget};
    SC_TRY(transport, staged::makeTransport(over, std::move(transport)));
  } else {
    kernels = place.kernels;
  }
  SC_TRY(auto made, Communicator::meet(config, std::move(kernels), place.budget, std::move(transport), device));
  engine::takeOver(engine);
  return made;
}

Status checkSecurity(const CommunicatorConfig& config) {
  if (config.security == sparsecollSecurityNone)
    return unsupported("config.security is None: connections of this version are always authenticated");
  return {};
}

Result<std::shared_ptr<Communicator>> meetOverUcx(const CommunicatorConfig& config, bootstrap::Exchange& exchange,
                                                  const bootstrap::Key& key, const bootstrap::JobId& job,
                                                  const std::string& interfaceName, const Deadline& deadline,
                                                  int device) {
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
  SC_TRY(auto control, bootstrap::Control::make(std::move(mesh), bootstrap::controlTimes()));
  SC_TRY(auto made, meetOverEngine(config, std::move(place), messenger->table(),
                                   std::make_unique<bootstrap::Watch>(control), device));
  (void)messenger.release();
  made->watchBy(std::move(control));
  return made;
}

}  // namespace sparsecoll
