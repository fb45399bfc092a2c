// SPDX-License-Identifier: Apache-2.0
// The ranks of a training: which of them live in this process, and their communicators.
#pragma once

#include <sparsecoll/sparsecoll.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace examples {

class World {
 public:
  virtual ~World() = default;

  virtual size_t ranks() const = 0;
  virtual std::vector<size_t> localRanks() const = 0;

  /// For gradients: in the memory that the gradients are in.
  virtual sparsecollComm_t comm(size_t rank) const = 0;

  /// For small vectors in host memory; may be the same as comm.
  virtual sparsecollComm_t control(size_t rank) const = 0;

  /// Ends the waits of all ranks after a failure of this one. Any thread.
  void abort(size_t rank) const;

  /// Runs body(rank) on a thread for each local rank and waits for all. A rank that throws is aborted, so that nobody
  /// waits for it. Errors: std::runtime_error with the first failure and its rank.
  void run(const std::function<void(size_t)>& body) const;

  /// values = their sums over the ranks. Collective.
  void sum(size_t rank, std::vector<double>& values) const;
  void barrier(size_t rank) const;
};

/// How many ranks a launcher (sparsecoll-run, mpirun, mpiexec, srun) has started, of which this process is one; 0
/// without one. Errors: std::runtime_error (they have no way to meet).
size_t launchedRanks();

/// A rank's number among those of its host, by which it takes a device. Where nobody tells, or for a launched rank of
/// another process: rank.
size_t numberOnHost(size_t rank);

/// How such a job is started, to be put before the program: "sparsecoll-run -n 4 -- "; empty without a launcher.
std::string launchCommand();

/// The launched ranks, if there are any; else ranks threads of this process. devices: a CUDA ordinal for each rank,
/// none for host memory. Errors: std::runtime_error.
std::unique_ptr<World> openWorld(size_t ranks, const std::vector<int>& devices);

}  // namespace examples
