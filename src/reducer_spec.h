// What a reducer is made from, checked and with Auto resolved; the same on all ranks but for the caller's memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/status.h"
#include "src/methods.h"
#include "src/params.h"

namespace sparsecoll {

struct ReducerSpec {
  uint64_t n = 0;
  sparsecollDataType_t type = sparsecollFloat32;
  sparsecollDataType_t accumulateType = sparsecollFloat32;
  sparsecollParams_t params{};
  const SelectorRow* selector = nullptr;
  const CollectiveRow* collective = nullptr;
  std::vector<sparsecollSegment_t> segments;
  bool anyDensity = false;  // a tensor has a density of its own, maybe one of another shard
  uint64_t sentDense = 0;   // elements of tensors that are sent dense beside a selection
  double maxDensity = 0;    // 0: room is made for what a step asks for, and again where the schedule changes that
  std::vector<double> densitySchedule;
  uint64_t scheduleSteps = 0;
  bool transactional = false;
  void* buffer = nullptr;    // residual in the caller's memory
  void* velocity = nullptr;  // likewise
  const char* reason = "";
  // One of several methods that take turns over one residual (AutoReducer). A dense sum then takes the residual along.
  bool takesTurns = false;
  bool makesResidual = true;  // else it gets it with its first turn
  bool overNodes = false;     // Hierarchical: collective is the one between nodes
  bool anyTeams = false;      // teams were chosen for another number of ranks: they are kept where they fit

  bool dense() const { return collective->make == nullptr; }
  bool has(uint32_t flag) const { return (params.flags & flag) != 0; }
  bool countsContributors() const {
    return has(SPARSECOLL_AVERAGE_CONTRIBUTORS) && collective->contributors == Contributors::kLists;
  }
  bool keepsResidual() const { return (!dense() || takesTurns) && !has(SPARSECOLL_NO_RESIDUAL); }
  // Entries a step is asked for, whose selection is asked for k.
  uint64_t requested(uint64_t k) const { return std::min(n, k + sentDense); }
  // A dense step may have to form its input, as it does in every step where the parameters shape that, or where the
  // node's sum has more digits than what travels.
  bool shapesDense() const {
    return dense() && (takesTurns || shapesInput(params) || (overNodes && type != accumulateType));
  }
};

// Errors: InvalidArgument, Unsupported.
Result<ReducerSpec> readReducerSpec(uint64_t n, int32_t type, const sparsecollParams_t* params,
                                    const sparsecollReducerConfig_t* config);

// Whether what the spec asks for between gradient and residual can be had. Errors: InvalidArgument, Unsupported.
Status checkInputShape(const ReducerSpec& spec);

// Whether a reducer of this spec could run on the two.
Status checkVectors(const ReducerSpec& spec, uint64_t n, const void* gradient, const void* out);

}  // namespace sparsecoll
