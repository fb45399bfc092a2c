// C shims: reducers.
#include <algorithm>
#include <utility>

#include "src/any_reducer.h"
#include "src/guard.h"
#include "src/structs.h"
#include "src/tables.h"

using namespace sparsecoll;

namespace {

Result<std::span<const std::byte>> bytesOf(const void* blob, size_t bytes) {
  if (blob == nullptr) return invalid("blob is NULL");
  return std::span<const std::byte>(static_cast<const std::byte*>(blob), bytes);
}

}  // namespace

sparsecollResult_t sparsecollReducerCreate(sparsecollReducer_t* reducer, uint64_t n, sparsecollDataType_t type,
                                           const sparsecollParams_t* params, const sparsecollReducerConfig_t* config,
                                           sparsecollComm_t comm) {
  return guard("ReducerCreate", [&]() -> Status {
    if (reducer == nullptr) return invalid("reducer is NULL");
    SC_TRY(const auto live, use(communicators(), comm));
    ReducerPlace place(reducers());
    SC_TRY(auto made, makeReducer(live.shared(), "ReducerCreate", n, type, params, config));
    *reducer = place.fill(std::move(made));
    return {};
  });
}

sparsecollResult_t sparsecollReducerGetInfo(sparsecollReducer_t reducer, sparsecollReducerInfo_t* info) {
  return guard("ReducerGetInfo", [&]() -> Status {
    SC_TRY(const auto live, reducers().find(reducer));
    return writeStruct(info, live->info(), "info");
  });
}

sparsecollResult_t sparsecollReducerGetPlan(sparsecollReducer_t reducer, sparsecollChoice_t* choices, uint64_t* count) {
  return guard("ReducerGetPlan", [&]() -> Status {
    if (count == nullptr) return invalid("count is NULL");
    SC_TRY(const auto live, reducers().find(reducer));
    const std::vector<sparsecollChoice_t> made = live->choices();
    const uint64_t room = std::exchange(*count, made.size());
    if (choices == nullptr) return {};
    if (room < made.size())
      return fail(sparsecollCapacity, "the plan has {} choices, there is room for {}", made.size(), room);
    std::ranges::copy(made, choices);
    return {};
  });
}

sparsecollResult_t sparsecollReducerRun(sparsecollReducer_t reducer, const void* gradient, void* out,
                                        sparsecollStream_t stream) {
  return guard("ReducerRun", [&]() -> Status {
    SC_TRY(const auto live, use(reducers(), reducer));
    SC_TRY(const StreamUse work, live->streamOf(stream));
    return live->run(gradient, out, work);
  });
}

sparsecollResult_t sparsecollReducerRunSparse(sparsecollReducer_t reducer, const void* gradient,
                                              sparsecollVector_t* out, sparsecollStream_t stream) {
  return guard("ReducerRunSparse", [&]() -> Status {
    SC_TRY(const auto live, use(reducers(), reducer));
    SC_TRY(const StreamUse work, live->streamOf(stream));
    if (out == nullptr) return invalid("out is NULL");
    return live->runSparse(gradient, *out, work);
  });
}

sparsecollResult_t sparsecollReducerSetDensity(sparsecollReducer_t reducer, double density) {
  return guard("ReducerSetDensity", [&]() -> Status {
    SC_TRY(const auto live, use(reducers(), reducer));
    return live->setDensity(density);
  });
}

sparsecollResult_t sparsecollReducerSetScales(sparsecollReducer_t reducer, double inputScale, double outputScale) {
  return guard("ReducerSetScales", [&]() -> Status {
    SC_TRY(const auto live, use(reducers(), reducer));
    return live->setScales({inputScale, outputScale});
  });
}

sparsecollResult_t sparsecollReducerGiveBack(sparsecollReducer_t reducer, const void* out, double factor,
                                             sparsecollStream_t stream) {
  return guard("ReducerGiveBack", [&]() -> Status {
    SC_TRY(const auto live, use(reducers(), reducer));
    SC_TRY(const StreamUse work, live->streamOf(stream));
    return live->giveBack(out, factor, work);
  });
}

sparsecollResult_t sparsecollReducerGetStats(sparsecollReducer_t reducer, sparsecollStats_t* stats) {
  return guard("ReducerGetStats", [&]() -> Status {
    SC_TRY(const auto live, use(reducers(), reducer));
    SC_TRY(const sparsecollStats_t now, live->stats());
    return writeStruct(stats, now, "stats");
  });
}

sparsecollResult_t sparsecollReducerReset(sparsecollReducer_t reducer, sparsecollStream_t stream) {
  return guard("ReducerReset", [&]() -> Status {
    SC_TRY(const auto live, use(reducers(), reducer));
    SC_TRY(const StreamUse work, live->streamOf(stream));
    return live->reset(work);
  });
}

sparsecollResult_t sparsecollReducerFlush(sparsecollReducer_t reducer, void* dense, sparsecollStream_t stream) {
  return guard("ReducerFlush", [&]() -> Status {
    SC_TRY(const auto live, use(reducers(), reducer));
    SC_TRY(const StreamUse work, live->streamOf(stream));
    return live->flush(dense, work);
  });
}

sparsecollResult_t sparsecollReducerGetResidual(sparsecollReducer_t reducer, void** data, uint64_t* n,
                                                sparsecollDataType_t* type) {
  return guard("ReducerGetResidual", [&]() -> Status {
    if (data == nullptr || n == nullptr || type == nullptr) return invalid("data, n or type is NULL");
    SC_TRY(const auto live, use(reducers(), reducer));
    *data = live->residual();
    *n = live->spec().n;
    *type = live->spec().accumulateType;
    return {};
  });
}

sparsecollResult_t sparsecollReducerExport(sparsecollReducer_t reducer, void* blob, size_t* bytes,
                                           sparsecollStream_t stream) {
  return guard("ReducerExport", [&]() -> Status {
    if (bytes == nullptr) return invalid("bytes is NULL");
    SC_TRY(const auto live, use(reducers(), reducer));
    SC_TRY(const StreamUse work, live->streamOf(stream));
    const size_t room = *bytes;
    SC_TRY(*bytes, live->exportState(nullptr, 0, work));
    if (blob == nullptr) return {};
    SC_TRY(*bytes, live->exportState(blob, room, work));
    return {};
  });
}

sparsecollResult_t sparsecollReducerImport(sparsecollReducer_t reducer, const void* blob, size_t bytes,
                                           sparsecollStream_t stream) {
  return guard("ReducerImport", [&]() -> Status {
    SC_TRY(const auto live, use(reducers(), reducer));
    SC_TRY(const StreamUse work, live->streamOf(stream));
    SC_TRY(const auto content, bytesOf(blob, bytes));
    return live->importState(content, work);
  });
}

sparsecollResult_t sparsecollReducerImportFrom(sparsecollReducer_t reducer, const void* blob, size_t bytes,
                                               int merge, sparsecollStream_t stream) {
  return guard("ReducerImportFrom", [&]() -> Status {
    constexpr Merge kMerges[] = {Merge::kReplace, Merge::kAdd, Merge::kLeaveOut};
    if (merge < 0 || merge >= static_cast<int>(std::size(kMerges))) return invalid("merge is {}", merge);
    SC_TRY(const auto live, use(reducers(), reducer));
    SC_TRY(const StreamUse work, live->streamOf(stream));
    SC_TRY(const auto content, bytesOf(blob, bytes));
    return live->importStateFrom(content, kMerges[merge], work);
  });
}

sparsecollResult_t sparsecollReducerDestroy(sparsecollReducer_t reducer) {
  return guard("ReducerDestroy", [&]() -> Status {
    if (reducer == nullptr) return {};
    SC_TRY(auto removed, reducers().remove(reducer));
    const InUse<AnyReducer> gone(std::move(removed));
    if (gone->forked()) new std::shared_ptr<AnyReducer>(gone.shared());  // for ever, as CommDestroy does
    return {};
  });
}
