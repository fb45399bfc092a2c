#include "src/ranks.h"

#include <algorithm>

#include "core/bytes.h"
#include "core/environment.h"
#include "core/limits.h"
#include "cuda/cuda_kernels.h"
#include "host/host_kernels.h"
#include "src/rate.h"
#include "transports/bootstrap/control.h"
#include "transports/bootstrap/star.h"
#include "transports/staged.h"
#include "transports/tcp.h"
#include "transports/ucx.h"

namespace sparsecoll {

std::string interfaceOf(const CommunicatorConfig& config) {
  if (!config.interfaceName.empty()) return config.interfaceName;
  const char* const named = environmentText(variable::kInterface);
  return named != nullptr ? named : "";
}

namespace {

std::shared_ptr<engine::Pace> paceOf(const CommunicatorConfig& config) {
  return config.bitsPerSecond != 0 ? std::make_shared<engine::Pace>(config.bitsPerSecond) : nullptr;
}

}  // namespace

Result<std::shared_ptr<Communicator>> meetOverEngine(const CommunicatorConfig& config, engine::EngineSetup setup,
                                                     const sparsecollEngine_t& table,
                                                     std::unique_ptr<engine::PeerWatch> watch, int device,
                                                     const Deadline& deadline) {
  const bool onDevice = device != SPARSECOLL_HOST;
  if (onDevice && setup.ranks > kMostDeviceRanks)
    return unsupported("{} ranks on devices, at most {} can be", setup.ranks, kMostDeviceRanks);
  const cuda::OnDevice current(device);
  std::shared_ptr<Kernels> kernels;
  if (onDevice) {
    SC_TRY(kernels, cuda::makeCudaKernels(device, memoryTerms(config)));
  }
  // A caller's allocator is for the memory space of the vectors.
  setup.kernels = host::makeHostKernels(host::bestIsa(), onDevice ? nullptr : hostMemory(config));
  setup.budget = std::make_shared<MemoryBudget>(config.workspaceLimitBytes);
  setup.abortTimeoutMs = config.abortTimeoutMs;
  if (setup.pace == nullptr) setup.pace = paceOf(config);
  if (onDevice) setup.calls.move = nullptr;  // its vectors are pinned memory, of the next piece once a sum is over
  SC_TRY(auto transport, engine::makeTransport(setup, table, std::move(watch)));
  Transport& engine = *transport;
  if (onDevice) {
    SC_TRY(auto memory, staged::pinnedMemory(device, kernels));
    const staged::StagedSetup over{kernels, host::makeHostKernels(host::bestIsa(), std::move(memory)), setup.budget,
                                   device};
    SC_TRY(transport, staged::makeTransport(over, std::move(transport)));
  } else {
    kernels = setup.kernels;
  }
  SC_TRY(auto made,
         Communicator::meet(config, std::move(kernels), setup.budget, std::move(transport), device, deadline));
  engine::takeOver(engine);
  return made;
}

Result<std::shared_ptr<Communicator>> meetOverMesh(sparsecollTransport_t engine, const CommunicatorConfig& config,
                                                   bootstrap::Exchange& exchange, const bootstrap::MeshSecret& secret,
                                                   const std::string& interfaceName, const Deadline& deadline,
                                                   int device) {
  std::unique_ptr<engine::Messenger> messenger;
  const auto open = [&](bool oneHost, const bootstrap::Address& at) -> Result<std::vector<std::byte>> {
    if (engine == sparsecollTransportUcx) {
      SC_TRY(messenger, ucx::makeMessenger(oneHost, at, deadline));
    } else {
      SC_TRY(messenger, tcp::makeMessenger());
    }
    return messenger->card();
  };
  SC_TRY(bootstrap::Mesh mesh, bootstrap::makeMesh(exchange, {secret.key, secret.job, interfaceName, open}, deadline));
  SC_TRY(messenger->connect(exchange, mesh, deadline));
  engine::EngineSetup setup;
  setup.rank = mesh.rank;
  setup.ranks = mesh.ranks;
  setup.kind = engine;
  setup.pace = paceOf(config);
  messenger->wakeFor(setup.pace);
  setup.awake = std::make_shared<std::atomic<bool>>(false);
  messenger->keepAwake(setup.awake);
  setup.calls = messenger->calls();
  SC_TRY(auto control, bootstrap::Control::make(std::move(mesh), bootstrap::ControlTimes::of(config.silenceMs)));
  SC_TRY(auto made, meetOverEngine(config, std::move(setup), messenger->table(),
                                   std::make_unique<bootstrap::Watch>(control), device, deadline));
  (void)messenger.release();
  made->watchBy(std::move(control));
  return made;
}

namespace {

Result<nccl::NcclSetup> ncclSetupOn(int device, const CommunicatorConfig& config, const Deadline& deadline) {
  nccl::NcclSetup setup;
  SC_TRY(setup.kernels, cuda::makeCudaKernels(device, memoryTerms(config)));
  setup.budget = std::make_shared<MemoryBudget>(config.workspaceLimitBytes);
  setup.deadline = deadline;
  setup.abortTimeoutMs = config.abortTimeoutMs;
  return setup;
}

// Rank 0's id, if no rank has failed so far; else the first failure, on all ranks.
Result<nccl::Id> shareId(bootstrap::Exchange& exchange, Status own, const Deadline& deadline) {
  nccl::Id id{};
  if (exchange.rank() == 0 && own.ok()) {
    auto made = nccl::makeId();
    if (made.ok()) id = *made;
    own = made.takeStatusOrOk();
  }
  Writer writer;
  writer.append(id.data(), id.size());
  const std::vector<std::byte> verdict = bootstrap::writeVerdict(bootstrap::toldToOthers(own.failure()));
  writer.append(verdict.data(), verdict.size());
  SC_TRY(const bootstrap::Parts parts, exchange.allgather(writer.bytes(), deadline));
  for (size_t rank = 0; rank < parts.size(); ++rank) {
    Reader reader(parts[rank]);
    SC_TRY(const bootstrap::Bytes theirs, reader.take(id.size()));
    SC_TRY(const bootstrap::Bytes rest, reader.take(reader.left()));
    SC_TRY(const Failure failure, bootstrap::readVerdict(rest));
    const bool isOwn = static_cast<int>(rank) == exchange.rank();
    const sparsecollResult_t result = isOwn ? own.result() : failure.result;
    if (result != sparsecollSuccess) return failBy(static_cast<int>(rank), result, "rank {}: {}", rank, failure.text);
    if (rank == 0) std::ranges::copy(theirs, id.begin());
  }
  return id;
}

}  // namespace

Result<std::shared_ptr<Communicator>> meetOverNccl(const CommunicatorConfig& config, bootstrap::Exchange& exchange,
                                                   const Deadline& deadline, int device) {
  const cuda::OnDevice current(device);
  auto setup = ncclSetupOn(device, config, deadline);
  Status placed;
  if (!setup.ok()) placed = setup.takeStatus();
  SC_TRY(const nccl::Id id, shareId(exchange, std::move(placed), deadline));
  SC_TRY(auto transport, nccl::makeTransport(*setup, exchange.ranks(), exchange.rank(), id));
  return Communicator::meet(config, setup->kernels, setup->budget, std::move(transport), device, deadline);
}

Result<std::shared_ptr<Communicator>> adoptNccl(const CommunicatorConfig& config, ncclComm* comm, bool split) {
  if (config.bitsPerSecond != 0) return unsupported("NCCL cannot keep to {}", variable::kRate);
  SC_TRY(const int device, nccl::deviceOf(comm));
  const cuda::OnDevice current(device);
  const Deadline deadline = Deadline::in(config.initTimeoutMs);
  SC_TRY(const nccl::NcclSetup setup, ncclSetupOn(device, config, deadline));
  SC_TRY(auto transport, nccl::makeTransport(setup, comm, split));
  if (transport->ranks() > kMostDeviceRanks)
    return unsupported("{} ranks on devices, at most {} can be", transport->ranks(), kMostDeviceRanks);
  return Communicator::meet(config, setup.kernels, setup.budget, std::move(transport), device, deadline);
}

}  // namespace sparsecoll
