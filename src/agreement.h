// Agreement: before ranks build something together or run a one-shot call, they compare what they were asked for.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/status.h"
#include "src/communicator.h"
#include "src/params.h"

namespace sparsecoll {

inline constexpr uint32_t kMostAgreedFields = 30;

// What the communicator keeps ready for agreements.
uint64_t agreementWindowBytes();

// Compares the fields on all ranks. Errors: Mismatch, on all ranks, naming the first field that differs and the lowest
// rank that differs from rank 0. own: a number that may differ; on success everyone knows everyone's, in rank order.
Result<std::vector<uint64_t>> agree(Communicator& comm, const char* what, std::span<const Agreed> fields,
                                    uint64_t own = 0);

uint64_t hashOf(const char* what, std::span<const Agreed> fields);

}  // namespace sparsecoll
