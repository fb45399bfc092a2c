// What the environment tells the library. A variable that is set to nothing counts as one that is not set. Any thread,
// while none of the program's sets variables.
#pragma once

#include <cstdint>

#include "core/status.h"

namespace sparsecoll {

// docs/guide/errors.md says what each does.
namespace variable {
inline constexpr const char* kDisableEngines = "SPARSECOLL_DISABLE_ENGINES";
inline constexpr const char* kFlightEntries = "SPARSECOLL_FLIGHT_RECORDER";
inline constexpr const char* kFlightFolder = "SPARSECOLL_FLIGHT_DIR";
inline constexpr const char* kInterface = "SPARSECOLL_INTERFACE";
inline constexpr const char* kIsa = "SPARSECOLL_ISA";
inline constexpr const char* kLog = "SPARSECOLL_LOG";
inline constexpr const char* kNcclLibrary = "SPARSECOLL_NCCL_LIBRARY";
inline constexpr const char* kPmixLibrary = "SPARSECOLL_PMIX_LIBRARY";
inline constexpr const char* kPort = "SPARSECOLL_PORT";
inline constexpr const char* kRanksPerNode = "SPARSECOLL_RANKS_PER_NODE";
inline constexpr const char* kRate = "SPARSECOLL_RATE";
inline constexpr const char* kSecretFile = "SPARSECOLL_SECRET_FILE";
inline constexpr const char* kSharedMemory = "SPARSECOLL_SHARED_MEMORY";
inline constexpr const char* kSilence = "SPARSECOLL_SILENCE_MS";
inline constexpr const char* kTunerFile = "SPARSECOLL_TUNER_FILE";
inline constexpr const char* kUcxLibrary = "SPARSECOLL_UCX_LIBRARY";
// Not ours.
inline constexpr const char* kDeviceConnections = "CUDA_DEVICE_MAX_CONNECTIONS";
inline constexpr const char* kUcxRendezvous = "UCX_RNDV_THRESH";
inline constexpr const char* kUcxSignals = "UCX_HANDLE_ERRORS";
inline constexpr const char* kUcxTransports = "UCX_TLS";
inline constexpr const char* kUcxDevices = "UCX_NET_DEVICES";
}  // namespace variable

// nullptr: not set.
const char* environmentText(const char* variable);

struct Allowed {
  uint64_t least = 0;
  uint64_t most = 0;
  const char* what = "";  // "a number of ranks"
};

// otherwise: where the variable is not set. Errors: InvalidArgument, which names the variable, its text and what is
// allowed.
Result<uint64_t> environmentNumber(const char* variable, uint64_t otherwise, const Allowed& allowed);

}  // namespace sparsecoll
