#include "bench/perf/library.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "bench/common/errors.h"

namespace bench {

void check(sparsecollResult_t result, const char* call) {
  if (result == sparsecollSuccess) return;
  const std::string text = fmt::format("{}: {}: {}", call, sparsecollGetErrorString(result), sparsecollGetLastError());
  if (result == sparsecollUnsupported) throw UnsupportedError(text);
  throw EnvironmentError(text);
}

std::vector<std::string> presetNames() {
  std::vector<std::string> names;
  for (uint32_t i = 0; const char* name = sparsecollPresetName(i); ++i) names.emplace_back(name);
  return names;
}

bool isDense(const sparsecollParams_t& params) {
  const bool overNodes = params.collective == sparsecollCollHierarchical;
  return (overNodes ? params.betweenNodes : params.collective) == sparsecollCollDense;
}

bool isExactTopK(const sparsecollParams_t& params) {
  return !isDense(params) && (params.selector == sparsecollSelectDefault || params.selector == sparsecollSelectTopK);
}

sparsecollParams_t Method::params() const {
  auto params = SPARSECOLL_INIT(sparsecollParams_t);
  check(sparsecollPreset(preset.c_str(), &params), "sparsecollPreset");
  params.op = op;
  params.flags = flags;
  if (!isDense(params)) params.density = density;
  if (!momentum || (flags & SPARSECOLL_NO_RESIDUAL) != 0) params.momentum = 0;
  if (params.selector == sparsecollSelectThreshold) params.threshold = threshold;
  if (overNodes) params.betweenNodes = std::exchange(params.collective, sparsecollCollHierarchical);
  return params;
}

uint64_t entriesOf(double density, uint64_t n) {
  const auto length = static_cast<double>(n);
  const double wanted = std::floor(density * length + 1e-9 * length);
  return std::clamp<uint64_t>(static_cast<uint64_t>(wanted), 1, n);
}

Reducer::Reducer(const Method& method, uint64_t n, const ElementType& type, sparsecollComm_t comm) {
  const sparsecollParams_t params = method.params();
  auto config = SPARSECOLL_INIT(sparsecollReducerConfig_t);
  const bool residual = !isDense(params) && (params.flags & SPARSECOLL_NO_RESIDUAL) == 0;
  config.transactional = method.transactional && residual ? 1 : 0;
  check(sparsecollReducerCreate(&handle_, n, type.type, &params, &config, comm), "sparsecollReducerCreate");
}

Reducer::~Reducer() { sparsecollReducerDestroy(handle_); }

void Reducer::run(const void* gradient, void* out, void* stream) {
  check(sparsecollReducerRun(handle_, gradient, out, static_cast<sparsecollStream_t>(stream)), "sparsecollReducerRun");
}

sparsecollStats_t Reducer::stats() const {
  auto stats = SPARSECOLL_INIT(sparsecollStats_t);
  check(sparsecollReducerGetStats(handle_, &stats), "sparsecollReducerGetStats");
  return stats;
}

sparsecollReducerInfo_t Reducer::info() const {
  auto info = SPARSECOLL_INIT(sparsecollReducerInfo_t);
  check(sparsecollReducerGetInfo(handle_, &info), "sparsecollReducerGetInfo");
  return info;
}

const void* Reducer::residual() const {
  void* data = nullptr;
  uint64_t n = 0;
  sparsecollDataType_t type = sparsecollFloat32;
  check(sparsecollReducerGetResidual(handle_, &data, &n, &type), "sparsecollReducerGetResidual");
  return data;
}

}  // namespace bench
