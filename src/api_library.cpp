// C shims: library calls and the state behind all of them.
#include <algorithm>
#include <cstddef>

#include "cuda/cuda_kernels.h"
#include "host/isa.h"
#include "src/build_info.h"
#include "src/engines.h"
#include "src/guard.h"
#include "src/methods.h"
#include "src/names.h"
#include "src/structs.h"
#include "src/tables.h"

namespace sparsecoll {

ErrorText& lastError() {
  thread_local ErrorText text;
  return text;
}

HandleTable<Communicator, sparsecollComm_t>& communicators() {
  static HandleTable<Communicator, sparsecollComm_t> table("communicator", 1);
  return table;
}

HandleTable<AnyReducer, sparsecollReducer_t>& reducers() {
  static HandleTable<AnyReducer, sparsecollReducer_t> table("reducer", 2);
  return table;
}

Status checkStream(bool onHost, sparsecollStream_t stream) {
  const auto perThread = reinterpret_cast<sparsecollStream_t>(uintptr_t{2});  // cudaStreamPerThread
  if (onHost && stream != nullptr) return invalid("host communicators take no stream");
  if (!onHost && stream == perThread) return invalid("cudaStreamPerThread is another stream in each thread");
  return {};
}

}  // namespace sparsecoll

using namespace sparsecoll;

int sparsecollGetVersion(void) { return SPARSECOLL_VERSION_CODE; }

// Without the heap: there is no result to tell of an exception.
const char* sparsecollGetBuildInfo(void) {
  const auto ifFound = [](int found, const char* name) {
    return found != 0 ? Text<16>::format(R"(, "{}")", name) : Text<16>();
  };
  static const Text<512> info = Text<512>::format(
      R"({{"version": "{}", "commit": "{}", "compiler": "{}", "build": "{}", "isa": "{}", "backends": ["{}"{}], )"
      R"("transports": ["{}"{}{}{}]}})",
      SPARSECOLL_VERSION_TEXT, SPARSECOLL_COMMIT, __VERSION__, SPARSECOLL_BUILD_TYPE, host::bestIsa().name,
      backendName(sparsecollBackendHost), ifFound(SPARSECOLL_CUDA_FOUND, backendName(sparsecollBackendCuda)),
      transportName(sparsecollTransportThreads),
      ifFound(SPARSECOLL_SODIUM_FOUND, transportName(sparsecollTransportTcp)),
      ifFound(SPARSECOLL_UCX_FOUND, transportName(sparsecollTransportUcx)),
      ifFound(SPARSECOLL_CUDA_FOUND, transportName(sparsecollTransportNccl)));
  return info.c_str();
}

const char* sparsecollGetLastError(void) { return lastError().c_str(); }

sparsecollResult_t sparsecollBackendAvailable(int32_t backend, int32_t transport, int* available) {
  return guard("BackendAvailable", [&]() -> Status {
    if (available == nullptr) return invalid("available is NULL");
    SC_TRY(checkEnum("backend", backend, backendName));
    SC_TRY(checkEnum("transport", transport, transportName));
    const auto engine = static_cast<sparsecollTransport_t>(transport);
    const auto here = [&](bool onDevice) -> Result<bool> {
      if (std::ranges::find(kMeetingEngines, engine) == kMeetingEngines.end())
        return engine != sparsecollTransportSimulated && (!onDevice || cuda::deviceCount() > 0);
      SC_TRY(const Ability ability, abilityHere(engine, onDevice));
      return ability.lack.empty();
    };
    bool found = false;
    for (const bool onDevice : {false, true}) {
      if (backend != sparsecollBackendAuto && onDevice != (backend == sparsecollBackendCuda)) continue;
      SC_TRY(const bool one, here(onDevice));
      found = found || one;
    }
    *available = found ? 1 : 0;
    return {};
  });
}

sparsecollResult_t sparsecollPreset(const char* name, sparsecollParams_t* params) {
  return guard("Preset", [&]() -> Status {
    SC_TRY(const PresetRow* const preset, findPreset(name));
    SC_TRY(checkHead(params, "params"));
    sparsecollParams_t filled{};
    filled.selector = preset->selector;
    filled.collective = preset->collective;
    filled.distribution = preset->distribution;
    filled.teams = preset->teams;
    filled.teamGather = preset->teamGather;
    filled.momentum = preset->momentum;
    // Without a field that the caller's header did not have yet it would be another method.
    const auto* const bytes = reinterpret_cast<const unsigned char*>(&filled);
    const size_t room = std::min(params->structSize, sizeof filled);
    if (std::any_of(bytes + room, bytes + sizeof filled, [](unsigned char byte) { return byte != 0; }))
      return unsupported("preset {} sets fields that the caller's params have no room for", preset->name);
    return writeStruct(params, filled, "params");
  });
}
