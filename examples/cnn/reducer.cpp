// SPDX-License-Identifier: Apache-2.0
#include "examples/cnn/reducer.h"

#include <numeric>
#include <stdexcept>

namespace examples {

void check(sparsecollResult_t result, const char* what) {
  if (result == sparsecollSuccess) return;
  std::string message = std::string(what) + ": " + sparsecollGetErrorString(result);
  const std::string details = sparsecollGetLastError();
  if (!details.empty()) message += ": " + details;
  throw std::runtime_error(message);
}

sparsecollParams_t methodParams(const std::string& preset, const Options& options) {
  auto params = SPARSECOLL_INIT(sparsecollParams_t);
  check(sparsecollPreset(preset.c_str(), &params), ("preset '" + preset + "'").c_str());
  params.op = sparsecollAvg;
  params.seed = options.seed;
  if (isDense(params)) return params;
  params.density = options.density;
  params.k = 0;
  if (options.errorFeedback) {
    if (params.momentum != 0) params.momentum = options.momentum;
  } else {
    params.flags |= SPARSECOLL_NO_RESIDUAL;
    params.momentum = 0;
  }
  return params;
}

Communicators::Communicators(size_t ranks) : comms_(ranks) {
  auto config = SPARSECOLL_INIT(sparsecollConfig_t);
  config.backend = sparsecollBackendHost;
  config.transport = sparsecollTransportThreads;
  config.name = "cnn";
  check(sparsecollCommInitAll(comms_.data(), static_cast<int>(ranks), nullptr, &config), "sparsecollCommInitAll");
}

Communicators::~Communicators() {
  for (const auto comm : comms_) sparsecollCommDestroy(comm);
}

Reducer::Reducer(const std::vector<size_t>& tensorLengths, const sparsecollParams_t& params, sparsecollComm_t comm) {
  std::vector<sparsecollSegment_t> segments(tensorLengths.size());
  for (size_t i = 0; i < segments.size(); ++i) segments[i].length = tensorLengths[i];
  auto config = SPARSECOLL_INIT(sparsecollReducerConfig_t);
  config.segments = segments.data();
  config.segmentCount = segments.size();
  const uint64_t count = std::accumulate(tensorLengths.begin(), tensorLengths.end(), uint64_t{0});
  check(sparsecollReducerCreate(&reducer_, count, sparsecollFloat32, &params, &config, comm),
        "sparsecollReducerCreate");
  check(sparsecollReducerGetInfo(reducer_, &info_), "sparsecollReducerGetInfo");
}

Reducer::~Reducer() { sparsecollReducerDestroy(reducer_); }

void Reducer::run(float* gradient) {
  check(sparsecollReducerRun(reducer_, gradient, gradient, nullptr), "sparsecollReducerRun");
}

sparsecollStats_t Reducer::stats() const {
  auto stats = SPARSECOLL_INIT(sparsecollStats_t);
  check(sparsecollReducerGetStats(reducer_, &stats), "sparsecollReducerGetStats");
  return stats;
}

double Reducer::achievedDensity(const sparsecollStats_t& stats) const {
  if (info_.collective == sparsecollCollDense) return 1.0;
  const uint64_t entries = info_.densityIsGlobal != 0 ? stats.lastUnion : stats.lastSelected;
  return static_cast<double>(entries) / static_cast<double>(info_.n);
}

}  // namespace examples
