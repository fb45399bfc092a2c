// C shim: communicators over an engine of the caller's.
#include "core/limits.h"
#include "src/devices.h"
#include "src/guard.h"
#include "src/ranks.h"
#include "src/structs.h"
#include "src/tables.h"

using namespace sparsecoll;

namespace {

Status checkEngine(const sparsecollEngine_t& engine) {
  const struct {
    const char* name;
    bool given;
  } needed[] = {{"isend", engine.isend != nullptr},
                {"irecv", engine.irecv != nullptr},
                {"test", engine.test != nullptr},
                {"cancel", engine.cancel != nullptr}};
  for (const auto& function : needed)
    if (!function.given) return invalid("engine.{} is NULL", function.name);
  return {};
}

}  // namespace

sparsecollResult_t sparsecollCommInitEngine(sparsecollComm_t* comm, int nRanks, int rank, int device,
                                            const sparsecollEngine_t* engine, const sparsecollConfig_t* config) {
  return guard("CommInitEngine", [&]() -> Status {
    if (comm == nullptr) return invalid("comm is NULL");
    if (nRanks < 1 || nRanks > kMaxRanks) return invalid("nRanks is {}, allowed are 1 to {}", nRanks, kMaxRanks);
    if (rank < 0 || rank >= nRanks) return invalid("rank is {} of {}", rank, nRanks);
    SC_TRY(const int place, readDevice(device));
    SC_TRY(const sparsecollEngine_t table, readStruct(engine, "engine"));
    SC_TRY(checkEngine(table));
    SC_TRY(const CommunicatorConfig read, readConfig(config, place != SPARSECOLL_HOST, {sparsecollTransportEngine}));
    engine::EngineSetup ends;
    ends.rank = rank;
    ends.ranks = nRanks;
    // First: nothing may fail once the engine is the communicator's.
    CommunicatorPlace handle(communicators());
    const Deadline deadline = Deadline::in(read.initTimeoutMs);
    SC_TRY(const auto made, meetOverEngine(read, std::move(ends), table, nullptr, place, deadline));
    *comm = handle.fill(made);
    return {};
  });
}
