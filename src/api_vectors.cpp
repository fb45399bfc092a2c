// C shims: one-shot collectives and local primitives.
#include "src/agreement.h"
#include "src/guard.h"
#include "src/reducer.h"
#include "src/tables.h"
#include "src/vectors.h"

using namespace sparsecoll;

namespace {

// A reducer without a residual that lives for one step.
Status allReduceOnce(const std::shared_ptr<Communicator>& comm, const void* in, void* out, uint64_t n,
                     sparsecollDataType_t type, const sparsecollParams_t* params, sparsecollStream_t stream) {
  constexpr const char* kCall = "AllReduce";
  if (n == 0) return agree(*comm, kCall, agreedOfNothing()).takeStatusOrOk();
  SC_TRY(ReducerSpec spec, readReducerSpec(n, type, params, nullptr));
  spec.params.flags |= SPARSECOLL_NO_RESIDUAL;
  SC_TRY(checkInputShape(spec));
  SC_TRY(checkVectors(spec, n, in, out));  // once the ranks have agreed, it would be too late to call again
  SC_TRY(const auto reducer, Reducer::make(comm, kCall, std::move(spec)));
  reducer->callSteps(kCall);
  {
    SC_TRY(const StreamUse work, reducer->streamOf(stream));
    SC_TRY(reducer->run(in, out, work));
  }
  return comm->onHost() ? Status() : comm->synchronize({stream}, 0);  // the reducer's memory goes back
}

// These calls allocate and wait, which a graph cannot hold.
Result<StreamUse> streamOf(Communicator& comm, sparsecollStream_t stream) {
  SC_TRY(checkStream(comm.onHost(), stream));
  const Stream work{stream, nullptr};
  if (comm.kernels().captures(work))
    return fail(sparsecollInvalidUsage, "the stream is captured, and this call cannot be");
  return StreamUse(comm.kernels(), work);
}

}  // namespace

sparsecollResult_t sparsecollAllReduce(const void* in, void* out, uint64_t n, sparsecollDataType_t type,
                                       const sparsecollParams_t* params, sparsecollComm_t comm,
                                       sparsecollStream_t stream) {
  return guard("AllReduce", [&]() -> Status {
    SC_TRY(const auto live, use(communicators(), comm));
    SC_TRY(streamOf(*live, stream).takeStatusOrOk());
    if (n != 0 && (in == nullptr || out == nullptr)) return invalid("in or out is NULL");
    return allReduceOnce(live.shared(), in, out, n, type, params, stream);
  });
}

sparsecollResult_t sparsecollAllReduceVector(const sparsecollVector_t* in, sparsecollVector_t* out,
                                             const sparsecollParams_t* params, sparsecollComm_t comm,
                                             sparsecollStream_t stream) {
  return guard("AllReduceVector", [&]() -> Status {
    SC_TRY(const auto live, use(communicators(), comm));
    SC_TRY(const StreamUse work, streamOf(*live, stream));
    return allReduceVector(*live, in, out, params, work);
  });
}

sparsecollResult_t sparsecollReduceScatterVector(const sparsecollVector_t* in, sparsecollVector_t* out,
                                                 const uint64_t* bounds, sparsecollComm_t comm,
                                                 sparsecollStream_t stream) {
  return guard("ReduceScatterVector", [&]() -> Status {
    SC_TRY(const auto live, use(communicators(), comm));
    SC_TRY(const StreamUse work, streamOf(*live, stream));
    return reduceScatterVector(*live, in, out, bounds, work);
  });
}

sparsecollResult_t sparsecollAllGatherVector(const sparsecollVector_t* in, sparsecollVector_t* out,
                                             sparsecollComm_t comm, sparsecollStream_t stream) {
  return guard("AllGatherVector", [&]() -> Status {
    SC_TRY(const auto live, use(communicators(), comm));
    SC_TRY(const StreamUse work, streamOf(*live, stream));
    return allGatherVector(*live, in, out, work);
  });
}

sparsecollResult_t sparsecollSelect(const void* in, uint64_t n, sparsecollDataType_t type,
                                    const sparsecollParams_t* params, sparsecollVector_t* out, sparsecollComm_t comm,
                                    sparsecollStream_t stream) {
  return guard("Select", [&]() -> Status {
    SC_TRY(const auto live, use(communicators(), comm));
    SC_TRY(const StreamUse work, streamOf(*live, stream));
    return selectEntries(*live, in, n, type, params, out, work);
  });
}

sparsecollResult_t sparsecollMerge(const sparsecollVector_t* a, const sparsecollVector_t* b, sparsecollVector_t* out,
                                   sparsecollComm_t comm, sparsecollStream_t stream) {
  return guard("Merge", [&]() -> Status {
    SC_TRY(const auto live, use(communicators(), comm));
    SC_TRY(const StreamUse work, streamOf(*live, stream));
    return mergeVectors(*live, a, b, out, work);
  });
}

sparsecollResult_t sparsecollScatterAdd(const sparsecollVector_t* in, void* dense, uint64_t n, double scale,
                                        sparsecollComm_t comm, sparsecollStream_t stream) {
  return guard("ScatterAdd", [&]() -> Status {
    SC_TRY(const auto live, use(communicators(), comm));
    SC_TRY(const StreamUse work, streamOf(*live, stream));
    return scatterAdd(*live, in, dense, n, scale, work);
  });
}
