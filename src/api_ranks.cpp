// C shims: communicators whose ranks are found by an id, by the caller's means, or by an ncclComm_t.
#include "core/limits.h"
#include "src/devices.h"
#include "src/engines.h"
#include "src/guard.h"
#include "src/launched.h"
#include "src/ranks.h"
#include "src/structs.h"
#include "src/tables.h"
#include "transports/bootstrap/address.h"
#include "transports/bootstrap/oob.h"
#include "transports/bootstrap/star.h"

using namespace sparsecoll;

namespace {

Status checkRank(int nRanks, int rank) {
  static_assert(kMostMeshRanks == kMostDeviceRanks);
  if (nRanks < 1 || nRanks > kMostMeshRanks)
    return invalid("nRanks is {}, allowed are 1 to {}", nRanks, kMostMeshRanks);
  if (rank < 0 || rank >= nRanks) return invalid("rank is {} of {}", rank, nRanks);
  return {};
}

Result<CommunicatorConfig> readMeetingConfig(const sparsecollConfig_t* user, bool onDevice) {
  SC_TRY(CommunicatorConfig read,
         readConfig(user, onDevice, {sparsecollTransportNccl, sparsecollTransportUcx, sparsecollTransportTcp}));
  SC_TRY(checkMemory(read.transport, onDevice));
  return read;
}

// Looked at before ranks meet: a call whose own settings are wrong may be corrected and repeated, while others wait.
Result<Candidate> lookHere(const CommunicatorConfig& config, int device) {
  const bool byNccl = config.transport == sparsecollTransportNccl ||
                      (config.transport == sparsecollTransportAuto && device != SPARSECOLL_HOST);
  if (!byNccl) {  // which has an interface of its own
    SC_TRY([[maybe_unused]] const bootstrap::Address at, bootstrap::addressOf(interfaceOf(config).c_str()));
  }
  return candidateHere(config.transport, device);
}

// Ranks that can talk to each other choose their engine, and meet over it. secret(): what a mesh of theirs is made by.
template <class Secret>
Status join(sparsecollComm_t* comm, const CommunicatorConfig& config, int device, const Candidate& own,
            bootstrap::Exchange& exchange, const Deadline& deadline, Secret secret) {
  CommunicatorPlace handle(communicators());  // once the ranks have met there is no way back
  SC_TRY(const Choice choice, agreeOnEngine(exchange, own, deadline));
  std::shared_ptr<Communicator> made;
  if (choice.engine == sparsecollTransportNccl) {
    SC_TRY(made, meetOverNccl(config, exchange, deadline, device));
  } else {
    SC_TRY(const bootstrap::MeshSecret agreed, secret());
    SC_TRY(made, meetOverMesh(choice.engine, config, exchange, agreed, interfaceOf(config), deadline, device));
  }
  made->explain(choice.reason);
  if (exchange.rank() == 0) made->tellPath();
  *comm = handle.fill(std::move(made));
  return {};
}

}  // namespace

sparsecollResult_t sparsecollGetUniqueId(sparsecollUniqueId_t* id, const sparsecollConfig_t* config) {
  return guard("GetUniqueId", [&]() -> Status {
    if (id == nullptr) return invalid("id is NULL");
    SC_TRY(const sparsecollConfig_t given, readStructOr(config, "config"));
    SC_TRY(const CommunicatorConfig read, readMeetingConfig(config, given.backend != sparsecollBackendHost));
    return bootstrap::invite(read.transport, interfaceOf(read).c_str(), Deadline::in(read.initTimeoutMs), id->bytes);
  });
}

sparsecollResult_t sparsecollCommInitRank(sparsecollComm_t* comm, int nRanks, const sparsecollUniqueId_t* id, int rank,
                                          int device, const sparsecollConfig_t* config) {
  return guard("CommInitRank", [&]() -> Status {
    if (comm == nullptr) return invalid("comm is NULL");
    if (id == nullptr) return invalid("id is NULL");
    SC_TRY(checkRank(nRanks, rank));
    SC_TRY(const int place, readDevice(device));
    SC_TRY(CommunicatorConfig read, readMeetingConfig(config, place != SPARSECOLL_HOST));
    SC_TRY(const bootstrap::Invitation invitation, bootstrap::readInvitation(id->bytes));
    if (invitation.engine != sparsecollTransportAuto) {
      if (read.transport != sparsecollTransportAuto && read.transport != invitation.engine)
        return invalid("config.transport is {}, the unique id was made for {}", engineName(read.transport),
                       engineName(invitation.engine));
      read.transport = invitation.engine;
      SC_TRY(checkMemory(read.transport, place != SPARSECOLL_HOST));
    }
    SC_TRY(const Candidate own, lookHere(read, place));
    const Deadline deadline = deadlineToMeet(read, rank);
    SC_TRY(const auto exchange, bootstrap::meet(invitation, rank, nRanks, deadline));
    return join(comm, read, place, own, *exchange, deadline, [&]() -> Result<bootstrap::MeshSecret> {
      return bootstrap::MeshSecret{invitation.key, invitation.job};
    });
  });
}

sparsecollResult_t sparsecollCommInitEnv(sparsecollComm_t* comm, int device, const sparsecollConfig_t* config) {
  return guard("CommInitEnv", [&]() -> Status {
    if (comm == nullptr) return invalid("comm is NULL");
    SC_TRY(const int place, readDevice(device));
    SC_TRY(const CommunicatorConfig read, readMeetingConfig(config, place != SPARSECOLL_HOST));
    SC_TRY(const Candidate own, lookHere(read, place));
    SC_TRY(const Meeting meeting, meetLaunched(read));
    return join(comm, read, place, own, *meeting.exchange, meeting.deadline, meeting.secret);
  });
}

sparsecollResult_t sparsecollCommInitOob(sparsecollComm_t* comm, int nRanks, int rank, int device,
                                         const sparsecollOob_t* oob, const sparsecollConfig_t* config) {
  return guard("CommInitOob", [&]() -> Status {
    if (comm == nullptr) return invalid("comm is NULL");
    SC_TRY(checkRank(nRanks, rank));
    SC_TRY(const int place, readDevice(device));
    SC_TRY(const sparsecollOob_t given, readStruct(oob, "oob"));
    if (given.allgather == nullptr) return invalid("oob.allgather is NULL");
    SC_TRY(const CommunicatorConfig read, readMeetingConfig(config, place != SPARSECOLL_HOST));
    SC_TRY(const Candidate own, lookHere(read, place));
    const Deadline deadline = Deadline::in(read.initTimeoutMs);
    bootstrap::OobExchange exchange(given, rank, nRanks);
    return join(comm, read, place, own, exchange, deadline,
                [&] { return bootstrap::drawTogether(exchange, deadline); });
  });
}

sparsecollResult_t sparsecollCommInitNccl(sparsecollComm_t* comm, struct ncclComm* ncclComm, int takeSplit,
                                          const sparsecollConfig_t* config) {
  return guard("CommInitNccl", [&]() -> Status {
    if (comm == nullptr) return invalid("comm is NULL");
    if (ncclComm == nullptr) return invalid("nccl is NULL");
    if (takeSplit != 0 && takeSplit != 1) return invalid("takeSplit is {}", takeSplit);
    SC_TRY(const CommunicatorConfig read, readConfig(config, true, {sparsecollTransportNccl}));
    CommunicatorPlace handle(communicators());
    SC_TRY(auto made, adoptNccl(read, ncclComm, takeSplit != 0));
    *comm = handle.fill(std::move(made));
    return {};
  });
}
