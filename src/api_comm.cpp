// C shims: communicators and their telemetry.
#include "core/limits.h"
#include "src/devices.h"
#include "src/guard.h"
#include "src/structs.h"
#include "src/tables.h"

using namespace sparsecoll;

sparsecollResult_t sparsecollCommInitAll(sparsecollComm_t* comms, int nRanks, const int* devices,
                                         const sparsecollConfig_t* config) {
  return guard("CommInitAll", [&]() -> Status {
    if (comms == nullptr) return invalid("comms is NULL");
    if (nRanks < 1 || nRanks > kMaxRanks) return invalid("nRanks is {}, allowed are 1 to {}", nRanks, kMaxRanks);
    SC_TRY(const std::vector<int> places, readDevices(devices, nRanks));
    SC_TRY(const CommunicatorConfig read,
           readConfig(config, places[0] != SPARSECOLL_HOST, {sparsecollTransportThreads}));
    SC_TRY(const auto made, Communicator::inProcess(places, read));
    communicators().addAll(made, comms);
    return {};
  });
}

sparsecollResult_t sparsecollCommGetInfo(sparsecollComm_t comm, int* rank, int* nRanks, int* device) {
  return guard("CommGetInfo", [&]() -> Status {
    SC_TRY(const auto live, communicators().find(comm));
    if (rank != nullptr) *rank = live->rank();
    if (nRanks != nullptr) *nRanks = live->ranks();
    if (device != nullptr) *device = live->device();
    return {};
  });
}

sparsecollResult_t sparsecollCommGetDetails(sparsecollComm_t comm, sparsecollCommDetails_t* details) {
  return guard("CommGetDetails", [&]() -> Status {
    SC_TRY(const auto live, communicators().find(comm));
    return writeStruct(details, live->details(), "details");
  });
}

sparsecollResult_t sparsecollCommGetAsyncError(sparsecollComm_t comm, sparsecollResult_t* state) {
  return guard("CommGetAsyncError", [&]() -> Status {
    if (state == nullptr) return invalid("state is NULL");
    SC_TRY(const auto live, communicators().find(comm));
    live->lookAtEngine();
    *state = live->state();
    return {};
  });
}

sparsecollResult_t sparsecollCommGetFailure(sparsecollComm_t comm, sparsecollFailure_t* failure) {
  return guard("CommGetFailure", [&]() -> Status {
    SC_TRY(const auto live, communicators().find(comm));
    live->lookAtEngine();
    return writeStruct(failure, live->failure(), "failure");
  });
}

sparsecollResult_t sparsecollCommGetPeerFailure(sparsecollComm_t comm, sparsecollFailure_t* failure) {
  return guard("CommGetPeerFailure", [&]() -> Status {
    SC_TRY(const auto live, communicators().find(comm));
    return writeStruct(failure, live->peerFailure(), "failure");
  });
}

sparsecollResult_t sparsecollCommDumpFlightRecorder(sparsecollComm_t comm, const char* path) {
  return guard("CommDumpFlightRecorder", [&]() -> Status {
    SC_TRY(const auto live, communicators().find(comm));
    return live->writeFlightFile(path);
  });
}

sparsecollResult_t sparsecollCommWait(sparsecollComm_t comm, sparsecollStream_t stream, uint64_t timeoutMs) {
  return guard("CommWait", [&]() -> Status {
    SC_TRY(const auto live, use(communicators(), comm));
    SC_TRY(checkStream(live->onHost(), stream));
    if (!live->onHost()) SC_TRY(live->synchronize({stream}, timeoutMs));  // on the host calls have finished
    if (live->state() == sparsecollSuccess) return {};
    return fail(live->state(), "{}", live->failure().text);
  });
}

sparsecollResult_t sparsecollCommAbort(sparsecollComm_t comm) {
  return guard("CommAbort", [&]() -> Status {
    SC_TRY(const auto live, use(communicators(), comm));
    live->abort();
    return {};
  });
}

sparsecollResult_t sparsecollCommDestroy(sparsecollComm_t comm) {
  return guard("CommDestroy", [&]() -> Status {
    if (comm == nullptr) return {};
    SC_TRY(auto removed, communicators().remove(comm));
    const InUse<Communicator> gone(std::move(removed));
    gone->close();
    if (gone->forked())
      new std::shared_ptr<Communicator>(gone.shared());  // for ever: taking it apart would end the other's, too
    return {};
  });
}

sparsecollResult_t sparsecollGetStats(sparsecollComm_t comm, sparsecollStats_t* stats) {
  return guard("GetStats", [&]() -> Status {
    SC_TRY(const auto live, communicators().find(comm));
    return writeStruct(stats, live->stats(), "stats");
  });
}

sparsecollResult_t sparsecollResetStats(sparsecollComm_t comm) {
  return guard("ResetStats", [&]() -> Status {
    SC_TRY(const auto live, communicators().find(comm));
    live->resetStats();
    return {};
  });
}
