// The one-shot collectives on sparse vectors and the local primitives.
#pragma once

#include <cstdint>

#include "core/status.h"
#include "src/communicator.h"

namespace sparsecoll {

Status allReduceVector(Communicator& comm, const sparsecollVector_t* in, sparsecollVector_t* out,
                       const sparsecollParams_t* params, Stream stream);
Status reduceScatterVector(Communicator& comm, const sparsecollVector_t* in, sparsecollVector_t* out,
                           const uint64_t* bounds, Stream stream);
Status allGatherVector(Communicator& comm, const sparsecollVector_t* in, sparsecollVector_t* out, Stream stream);

Status selectEntries(Communicator& comm, const void* in, uint64_t n, int32_t type, const sparsecollParams_t* params,
                     sparsecollVector_t* out, Stream stream);
Status mergeVectors(Communicator& comm, const sparsecollVector_t* a, const sparsecollVector_t* b,
                    sparsecollVector_t* out, Stream stream);
Status scatterAdd(Communicator& comm, const sparsecollVector_t* in, void* dense, uint64_t n, double scale,
                  Stream stream);

}  // namespace sparsecoll
