#include "src/names.h"

#include "src/methods.h"

namespace sparsecoll {

namespace {

struct Name {
  int32_t value;
  const char* name;
};

constexpr Name kResults[] = {
    {sparsecollSuccess, "success"},
    {sparsecollCudaError, "CUDA error"},
    {sparsecollSystemError, "system error"},
    {sparsecollInternalError, "internal error"},
    {sparsecollInvalidArgument, "invalid argument"},
    {sparsecollInvalidUsage, "invalid usage"},
    {sparsecollRemoteError, "remote error"},
    {sparsecollInProgress, "in progress"},
    {sparsecollTimeout, "timeout"},
    {sparsecollOutOfMemory, "out of memory"},
    {sparsecollUnsupported, "unsupported"},
    {sparsecollMismatch, "ranks disagree"},
    {sparsecollCapacity, "output vector too small"},
    {sparsecollNonFinite, "non-finite gradient"},
    {sparsecollAborted, "aborted"},
    {sparsecollPeerFailed, "peer failed"},
    {sparsecollCorrupted, "corrupted data"},
    {sparsecollAuthFailed, "authentication failed"},
};

constexpr Name kDataTypes[] = {
    {sparsecollFloat16, "f16"},
    {sparsecollFloat32, "f32"},
    {sparsecollFloat64, "f64"},
    {sparsecollBfloat16, "bf16"},
};

constexpr Name kOps[] = {{sparsecollSum, "sum"}, {sparsecollAvg, "avg"}};

constexpr Name kWires[] = {
    {sparsecollWireDefault, "default"}, {sparsecollWireSame, "same"},     {sparsecollWireF16, "f16"},
    {sparsecollWireBf16, "bf16"},       {sparsecollWireF8e4m3, "f8e4m3"}, {sparsecollWireF8e5m2, "f8e5m2"},
};

constexpr Name kIndexTypes[] = {
    {sparsecollIndexDefault, "default"},
    {sparsecollIndexU32, "u32"},
    {sparsecollIndexU64, "u64"},
};

constexpr Name kBackends[] = {
    {sparsecollBackendAuto, "auto"},
    {sparsecollBackendHost, "host"},
    {sparsecollBackendCuda, "cuda"},
};

constexpr Name kTransports[] = {
    {sparsecollTransportAuto, "auto"},     {sparsecollTransportThreads, "threads"},
    {sparsecollTransportUcx, "ucx"},       {sparsecollTransportNccl, "nccl"},
    {sparsecollTransportEngine, "engine"}, {sparsecollTransportSimulated, "simulated"},
    {sparsecollTransportTcp, "tcp"},
};

// Those that have no row.
constexpr Name kOtherCollectives[] = {{sparsecollCollAuto, "auto"}, {sparsecollCollHierarchical, "hierarchical"}};
constexpr Name kOtherSelectors[] = {{sparsecollSelectDefault, "default"}, {sparsecollSelectAuto, "auto"}};

constexpr Name kDistributions[] = {
    {sparsecollDistributionDefault, "default"},
    {sparsecollDistributionExponential, "exponential"},
    {sparsecollDistributionGammaPareto, "gamma_pareto"},
    {sparsecollDistributionPareto, "pareto"},
};

constexpr Name kTeamGathers[] = {
    {sparsecollTeamGatherDefault, "default"},
    {sparsecollTeamGatherRecursive, "recursive"},
    {sparsecollTeamGatherBruck, "bruck"},
};

constexpr Name kNonFinites[] = {
    {sparsecollNonFiniteDefault, "default"},
    {sparsecollNonFinitePropagate, "propagate"},
    {sparsecollNonFiniteError, "error"},
};

constexpr Name kSecurities[] = {
    {sparsecollSecurityDefault, "default"},
    {sparsecollSecurityKeyed, "keyed"},
    {sparsecollSecurityNone, "none"},
};

constexpr Name kParamFlags[] = {
    {SPARSECOLL_ACCUMULATE, "ACCUMULATE"},
    {SPARSECOLL_OUT_PRESERVED, "OUT_PRESERVED"},
    {SPARSECOLL_SELECT_NOTHING, "SELECT_NOTHING"},
    {SPARSECOLL_NO_RESIDUAL, "NO_RESIDUAL"},
    {SPARSECOLL_MOMENTUM_KEPT, "MOMENTUM_KEPT"},
    {SPARSECOLL_NESTEROV, "NESTEROV"},
    {SPARSECOLL_AVERAGE_CONTRIBUTORS, "AVERAGE_CONTRIBUTORS"},
};

const char* nameIn(std::span<const Name> names, int32_t value) {
  for (const Name& row : names)
    if (row.value == value) return row.name;
  return nullptr;
}

template <class Row>
const char* nameOf(const Row* row, std::span<const Name> others, int32_t value) {
  return row != nullptr ? row->name : nameIn(others, value);
}

}  // namespace

const char* resultName(int32_t result) { return nameIn(kResults, result); }
const char* dataTypeName(int32_t type) { return nameIn(kDataTypes, type); }
const char* opName(int32_t op) { return nameIn(kOps, op); }
const char* wireName(int32_t wire) { return nameIn(kWires, wire); }
const char* indexTypeName(int32_t type) { return nameIn(kIndexTypes, type); }
const char* backendName(int32_t backend) { return nameIn(kBackends, backend); }
const char* transportName(int32_t transport) { return nameIn(kTransports, transport); }
const char* collectiveName(int32_t collective) {
  return nameOf(collectiveRow(collective), kOtherCollectives, collective);
}
const char* selectorName(int32_t selector) { return nameOf(selectorRow(selector), kOtherSelectors, selector); }
const char* distributionName(int32_t distribution) { return nameIn(kDistributions, distribution); }
const char* teamGatherName(int32_t gather) { return nameIn(kTeamGathers, gather); }
const char* nonFiniteName(int32_t nonFinite) { return nameIn(kNonFinites, nonFinite); }
const char* flagName(uint32_t flag) { return nameIn(kParamFlags, static_cast<int32_t>(flag)); }
const char* securityName(int32_t security) { return nameIn(kSecurities, security); }

Status checkEnum(const char* field, int32_t value, const char* (*nameOf)(int32_t)) {
  if (nameOf(value) == nullptr) return invalid("{} is {}", field, value);
  return {};
}

}  // namespace sparsecoll
