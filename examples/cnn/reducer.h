// SPDX-License-Identifier: Apache-2.0
// The few sparsecoll calls of the trainer, with owners for the handles and exceptions for errors.
#pragma once

#include <sparsecoll/sparsecoll.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "examples/cnn/options.h"

namespace examples {

/// Throws std::runtime_error with the library's explanation unless result is Success. Same thread as the call.
void check(sparsecollResult_t result, const char* what);

/// The named method with the density, seed, flags and, where it has one, the momentum of the options. Errors: std::runtime_error (unknown preset).
sparsecollParams_t methodParams(const std::string& preset, const Options& options);

/// Whether the method sends the whole gradient, so that density and error feedback mean nothing to it.
inline bool isDense(const sparsecollParams_t& params) { return params.collective == sparsecollCollDense; }

/// Owns one communicator for each rank of this process.
class Communicators {
 public:
  explicit Communicators(size_t ranks);
  ~Communicators();
  Communicators(const Communicators&) = delete;
  Communicators& operator=(const Communicators&) = delete;

  sparsecollComm_t operator[](size_t rank) const { return comms_[rank]; }

  /// Ends the waits of all ranks after a failure of this one. Any thread.
  void abort(size_t rank) { sparsecollCommAbort(comms_[rank]); }

 private:
  std::vector<sparsecollComm_t> comms_;
};

/// One rank's reducer over its flat gradient. Creating it waits for the other ranks.
class Reducer {
 public:
  Reducer(const std::vector<size_t>& tensorLengths, const sparsecollParams_t& params, sparsecollComm_t comm);
  ~Reducer();
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  /// Replaces the gradient by the average over the ranks of what was sent.
  void run(float* gradient);

  sparsecollStats_t stats() const;

  /// The density that the preset's k counts: of the union over the ranks or of this rank's entries.
  double achievedDensity(const sparsecollStats_t& stats) const;

 private:
  sparsecollReducer_t reducer_ = nullptr;
  sparsecollReducerInfo_t info_ = SPARSECOLL_INIT(sparsecollReducerInfo_t);
};

}  // namespace examples
