#include "bench/perf/world.h"

#include <fmt/core.h>

#include <numeric>

#include "bench/common/errors.h"

namespace bench {

uint64_t World::total(uint64_t own) {
  std::vector<uint64_t> all(static_cast<size_t>(ranks()));
  gather(&own, sizeof own, all.data());
  return std::accumulate(all.begin(), all.end(), uint64_t{0});
}

std::vector<Launcher> launchers() {
  return {
      {sparsecollTransportName(sparsecollTransportThreads), "--ranks threads:P", nullptr},
#ifdef SPARSECOLL_PERF_MPI
      {"mpi", "mpirun -np P sparsecoll-perf --transport mpi", joinMpi},
#endif
      {sparsecollTransportName(sparsecollTransportUcx), "sparsecoll-run -n P sparsecoll-perf --transport ucx", joinUcx},
      {sparsecollTransportName(sparsecollTransportTcp), "sparsecoll-run -n P sparsecoll-perf --transport tcp", joinTcp},
  };
}

const Launcher& launcherOf(const std::string& name) {
  static const std::vector<Launcher> all = launchers();
  std::string known;
  for (const Launcher& one : all) {
    if (one.name == name) return one;
    known += fmt::format("{}{} ({})", known.empty() ? "" : ", ", one.name, one.usage);
  }
  throw UsageError(fmt::format("--transport {}: this build has {}", name, known));
}

}  // namespace bench
