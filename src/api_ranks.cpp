// C shims: communicators whose ranks are found by an id, by the caller's means, or by an ncclComm_t.
#include "core/limits.h"
#include "cuda/cuda_kernels.h"
#include "src/guard.h"
#include "src/ranks.h"
#include "src/structs.h"
#include "src/tables.h"
#include "transports/bootstrap/oob.h"
#include "transports/bootstrap/star.h"
#include "transports/nccl.h"

using namespace sparsecoll;

namespace {

Result<nccl::Place> placeOn(int device, const CommunicatorConfig& config) {
  nccl::Place place;
  SC_TRY(place.kernels, cuda::makeCudaKernels(device, memoryTerms(config)));
  place.budget = std::make_shared<MemoryBudget>(config.workspaceLimitBytes);
  place.device = device;
  place.deadline = Deadline::in(config.initTimeoutMs);
  return place;
}

Status publish(const CommunicatorConfig& config, const nccl::Place& place, std::unique_ptr<Transport> transport,
               sparsecollComm_t* comm) {
  if (transport->ranks() > kMostDeviceRanks)
    return unsupported("{} ranks on devices, at most {} can be", transport->ranks(), kMostDeviceRanks);
  SC_TRY(const auto made, Communicator::meet(config, place.kernels, place.budget, std::move(transport), place.device));
  communicators().addAll({made}, comm);
  return {};
}

// Without a word of the caller's: NCCL where it can be used, else UCX.
Result<bool> meansNccl(const sparsecollConfig_t* user) {
  SC_TRY(const sparsecollConfig_t given, readStructOr(user, "config"));
  if (given.transport != sparsecollTransportAuto) return given.transport == sparsecollTransportNccl;
  if (given.backend == sparsecollBackendCuda) return true;
  if (given.backend == sparsecollBackendHost) return false;
  return cuda::deviceCount() > 0 && nccl::available();
}

Status checkPlace(int nRanks, int rank, int device) {
  static_assert(kMostUcxRanks == kMostDeviceRanks);
  if (nRanks < 1 || nRanks > kMostUcxRanks) return invalid("nRanks is {}, allowed are 1 to {}", nRanks, kMostUcxRanks);
  if (rank < 0 || rank >= nRanks) return invalid("rank is {} of {}", rank, nRanks);
  if (device < SPARSECOLL_CURRENT_DEVICE) return invalid("device is {}", device);
  return {};
}

Status initOverUcx(sparsecollComm_t* comm, int nRanks, const sparsecollUniqueId_t& id, int rank, int device,
                   const sparsecollConfig_t* config) {
  SC_TRY(const CommunicatorConfig read, readConfig(config, device >= 0, sparsecollTransportUcx));
  SC_TRY(checkSecurity(read));
  // What rank 0 knows when its time is up, the others should still hear.
  constexpr uint64_t kLongerMs = 500;
  const bool waits = rank != 0 && read.initTimeoutMs < SPARSECOLL_NO_TIMEOUT - kLongerMs;
  const Deadline deadline = Deadline::in(read.initTimeoutMs + (waits ? kLongerMs : 0));
  SC_TRY(const bootstrap::Invitation invitation, bootstrap::readInvitation(id.bytes));
  SC_TRY(const auto exchange, bootstrap::meet(invitation, rank, nRanks, deadline));
  SC_TRY(const auto made,
         meetOverUcx(read, *exchange, invitation.key, invitation.job, interfaceOf(read), deadline, device));
  communicators().addAll({made}, comm);
  return {};
}

Status initOverNccl(sparsecollComm_t* comm, int nRanks, const sparsecollUniqueId_t& id, int rank, int device,
                    const sparsecollConfig_t* config) {
  SC_TRY(const CommunicatorConfig read, readConfig(config, true, sparsecollTransportNccl));
  int ordinal = device;
  if (device == SPARSECOLL_CURRENT_DEVICE) {
    SC_TRY(ordinal, nccl::currentDevice());
  }
  const cuda::OnDevice current(ordinal);
  SC_TRY(const nccl::Place place, placeOn(ordinal, read));
  SC_TRY(auto transport, nccl::makeTransport(place, nRanks, rank, id.bytes));
  return publish(read, place, std::move(transport), comm);
}

}  // namespace

sparsecollResult_t sparsecollGetUniqueId(sparsecollUniqueId_t* id, const sparsecollConfig_t* config) {
  return guard("GetUniqueId", [&]() -> Status {
    if (id == nullptr) return invalid("id is NULL");
    SC_TRY(const bool nccl, meansNccl(config));
    if (nccl) {
      SC_TRY(const CommunicatorConfig read, readConfig(config, true, sparsecollTransportNccl));
      return nccl::makeUniqueId(id->bytes);
    }
    SC_TRY(const sparsecollConfig_t given, readStructOr(config, "config"));
    const bool onDevices = given.backend == sparsecollBackendCuda;
    SC_TRY(const CommunicatorConfig read, readConfig(config, onDevices, sparsecollTransportUcx));
    SC_TRY(checkSecurity(read));
    return bootstrap::invite(interfaceOf(read).c_str(), Deadline::in(read.initTimeoutMs), id->bytes);
  });
}

sparsecollResult_t sparsecollCommInitRank(sparsecollComm_t* comm, int nRanks, const sparsecollUniqueId_t* id, int rank,
                                          int device, const sparsecollConfig_t* config) {
  return guard("CommInitRank", [&]() -> Status {
    if (comm == nullptr) return invalid("comm is NULL");
    if (id == nullptr) return invalid("id is NULL");
    SC_TRY(checkPlace(nRanks, rank, device));
    if (bootstrap::isInvitation(id->bytes)) return initOverUcx(comm, nRanks, *id, rank, device, config);
    return initOverNccl(comm, nRanks, *id, rank, device, config);
  });
}

sparsecollResult_t sparsecollCommInitOob(sparsecollComm_t* comm, int nRanks, int rank, int device,
                                         const sparsecollOob_t* oob, const sparsecollConfig_t* config) {
  return guard("CommInitOob", [&]() -> Status {
    if (comm == nullptr) return invalid("comm is NULL");
    SC_TRY(checkPlace(nRanks, rank, device));
    SC_TRY(const sparsecollOob_t given, readStruct(oob, "oob"));
    if (given.allgather == nullptr) return invalid("oob.allgather is NULL");
    SC_TRY(const CommunicatorConfig read, readConfig(config, device >= 0, sparsecollTransportUcx));
    SC_TRY(checkSecurity(read));
    const Deadline deadline = Deadline::in(read.initTimeoutMs);
    bootstrap::OobExchange exchange(given, rank, nRanks);
    SC_TRY(const bootstrap::Agreed agreed, bootstrap::drawTogether(exchange, deadline));
    SC_TRY(const auto made, meetOverUcx(read, exchange, agreed.key, agreed.job, interfaceOf(read), deadline, device));
    communicators().addAll({made}, comm);
    return {};
  });
}

sparsecollResult_t sparsecollCommInitNccl(sparsecollComm_t* comm, struct ncclComm* ncclComm, int takeSplit,
                                          const sparsecollConfig_t* config) {
  return guard("CommInitNccl", [&]() -> Status {
    if (comm == nullptr) return invalid("comm is NULL");
    if (ncclComm == nullptr) return invalid("nccl is NULL");
    if (takeSplit != 0 && takeSplit != 1) return invalid("takeSplit is {}", takeSplit);
    SC_TRY(const CommunicatorConfig read, readConfig(config, true, sparsecollTransportNccl));
    SC_TRY(const int device, nccl::deviceOf(ncclComm));
    const cuda::OnDevice current(device);
    SC_TRY(const nccl::Place place, placeOn(device, read));
    SC_TRY(auto transport, nccl::makeTransport(place, ncclComm, takeSplit != 0));
    return publish(read, place, std::move(transport), comm);
  });
}
