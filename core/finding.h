// What code that runs on devices finds wrong. Nobody there can format a text, so a finding is a few numbers; the host
// makes a Status of them. List rules (core/list_rule.h) report in this way on the host, too.
#pragma once

#include <cstdint>

#include "core/portable.h"
#include "sparsecoll/sparsecoll.h"

namespace sparsecoll {

class Status;

// What a finding says; finding.cpp has the texts.
enum class Found : uint32_t {
  kNothing,
  kSequence,  // value: the frame's, limit: this rank's
  kPlan,
  kFlags,
  kCount,         // value entries where the frame has room for limit
  kCountsDiffer,  // value values for limit indices
  kIndex,         // value is not below limit
  kOrder,         // entry value is not above the one before it
  kParts,         // value entries are not limit lists of equal length
  kOwners,        // value entries where the owner has room for limit
  kOutput,        // the union has value entries, the output limit slots
  kShares,        // the teams give different shares
  kNonFinite,     // operation value met NaN or Inf
  kWindow,        // window value has limit elements, which its plan has ruled out
  kEnded,         // the communicator has: nothing takes effect any more
};

struct Finding {
  uint32_t result;  // sparsecollResult_t; 0: none
  int32_t peer;     // rank concerned, -1 if none
  uint32_t what;    // Found
  uint64_t value;
  uint64_t limit;
};

Status statusOf(const Finding& finding);

#if SC_DEVICE_CODE
// The first one is kept.
__device__ inline void report(Finding* finding, sparsecollResult_t result, int32_t peer, Found what, uint64_t value = 0,
                              uint64_t limit = 0) {
  if (atomicCAS(&finding->result, 0u, static_cast<uint32_t>(result)) != 0) return;
  finding->peer = peer;
  finding->what = static_cast<uint32_t>(what);
  finding->value = value;
  finding->limit = limit;
}
#endif

}  // namespace sparsecoll
