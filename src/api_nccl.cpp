// C shims: communicators whose ranks are found by an id or by an ncclComm_t.
#include "src/agreement.h"
#include "src/guard.h"
#include "src/structs.h"
#include "src/tables.h"

#include "core/limits.h"
#include "cuda/cuda_kernels.h"
#include "transports/nccl.h"

using namespace sparsecoll;

namespace {

Result<nccl::Place> placeOn(int device, const CommunicatorConfig& config) {
  nccl::Place place;
  SC_TRY(place.kernels, cuda::makeCudaKernels(device));
  place.budget = std::make_shared<MemoryBudget>(config.workspaceLimitBytes);
  place.device = device;
  place.deadline = Deadline::in(config.opTimeoutMs);
  return place;
}

// The ranks' first operation: that all of them got as far as this, and are of one version.
Status publish(const CommunicatorConfig& config, const nccl::Place& place, std::unique_ptr<Transport> transport,
               sparsecollComm_t* comm) {
  if (transport->ranks() > kMostDeviceRanks)
    return unsupported("{} ranks on devices, at most {} can be", transport->ranks(), kMostDeviceRanks);
  SC_TRY(const auto made,
         Communicator::onEngine(config, place.kernels, place.budget, std::move(transport), place.device));
  const Agreed fields[] = {{"version", SPARSECOLL_VERSION_CODE}};
  SC_TRY(agree(*made, "CommInit", fields).takeStatusOrOk());
  communicators().addAll({made}, comm);
  return {};
}

}  // namespace

sparsecollResult_t sparsecollGetUniqueId(sparsecollUniqueId_t* id, const sparsecollConfig_t* config) {
  return guard("GetUniqueId", [&]() -> Status {
    if (id == nullptr) return invalid("id is NULL");
    SC_TRY(const CommunicatorConfig read, readConfig(config, true, sparsecollTransportNccl));
    return nccl::makeUniqueId(id->bytes);
  });
}

sparsecollResult_t sparsecollCommInitRank(sparsecollComm_t* comm, int nRanks, const sparsecollUniqueId_t* id, int rank,
                                          int device, const sparsecollConfig_t* config) {
  return guard("CommInitRank", [&]() -> Status {
    if (comm == nullptr) return invalid("comm is NULL");
    if (id == nullptr) return invalid("id is NULL");
    if (nRanks < 1 || nRanks > kMostDeviceRanks)
      return invalid("nRanks is {}, allowed are 1 to {}", nRanks, kMostDeviceRanks);
    if (rank < 0 || rank >= nRanks) return invalid("rank is {} of {}", rank, nRanks);
    if (device < SPARSECOLL_CURRENT_DEVICE) return invalid("device is {}", device);
    SC_TRY(const CommunicatorConfig read, readConfig(config, true, sparsecollTransportNccl));
    int ordinal = device;
    if (device == SPARSECOLL_CURRENT_DEVICE) {
      SC_TRY(ordinal, nccl::currentDevice());
    }
    SC_TRY(const nccl::Place place, placeOn(ordinal, read));
    SC_TRY(auto transport, nccl::makeTransport(place, nRanks, rank, id->bytes));
    return publish(read, place, std::move(transport), comm);
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
    SC_TRY(const nccl::Place place, placeOn(device, read));
    SC_TRY(auto transport, nccl::makeTransport(place, ncclComm, takeSplit != 0));
    return publish(read, place, std::move(transport), comm);
  });
}
