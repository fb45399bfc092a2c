// From the caller's structs to a ReducerSpec.
#include <algorithm>
#include <cstring>

#include "core/limits.h"
#include "src/names.h"
#include "src/params.h"
#include "src/pointer_checks.h"
#include "src/reducer_spec.h"
#include "src/scales.h"
#include "src/structs.h"

namespace sparsecoll {

namespace {

// Until measured costs decide: below these sizes, and above this density, sparse cannot win.
constexpr uint64_t kDenseBelow = 65536;
constexpr double kDenseAbove = 0.25;
constexpr uint64_t kMostScheduled = 1024;

Status readSegments(const sparsecollReducerConfig_t& config, ReducerSpec& spec) {
  if (config.segments == nullptr) {
    if (config.segmentCount != 0) return invalid("config.segments is NULL, segmentCount {}", config.segmentCount);
    return {};
  }
  if (config.segmentCount == 0 || config.segmentCount > spec.n)
    return invalid("config.segmentCount is {} for {} elements", config.segmentCount, spec.n);
  spec.segments.assign(config.segments, config.segments + config.segmentCount);
  uint64_t total = 0;
  for (size_t s = 0; s < spec.segments.size(); ++s) {
    const sparsecollSegment_t& segment = spec.segments[s];
    if (segment.length == 0) return invalid("segment {} is empty", s);
    if (!(segment.density >= 0 && segment.density <= 1))
      return invalid("segment {} has density {}", s, segment.density);
    if (segment.dense != 0 && segment.dense != 1) return invalid("segment {} has dense {}", s, segment.dense);
    if (segment.reserved0 != 0) return unsupported("segment {} has reserved0 {}", s, segment.reserved0);
    SC_TRY(total, checkedAdd(total, segment.length));
    spec.anyDensity = spec.anyDensity || (segment.dense == 0 && segment.density != 0);
    if (segment.dense != 0 && !spec.dense()) spec.sentDense += segment.length;
  }
  if (total != spec.n) return invalid("the segments have {} elements, the gradient {}", total, spec.n);
  if (spec.anyDensity && !spec.selector->segmentDensities)
    return unsupported("selector {} has no densities of single tensors", spec.selector->name);
  if (spec.anyDensity && spec.collective->blocks)
    return unsupported("collective {} has no densities of single tensors", spec.collective->name);
  if (spec.sentDense != 0 && spec.countsContributors())
    return unsupported("an average over contributors, with tensors that are sent dense");
  return {};
}

// What the method asks for as a density, whether it was given as one or as k.
double densityOf(const ReducerSpec& spec) {
  if (spec.params.k == 0) return spec.params.density;
  return static_cast<double>(std::min(spec.params.k, spec.n)) / static_cast<double>(spec.n);
}

Status readSchedule(const sparsecollReducerConfig_t& config, ReducerSpec& spec) {
  if ((config.densitySchedule == nullptr) != (config.densityScheduleCount == 0) ||
      (config.densitySchedule == nullptr) != (config.scheduleSteps == 0))
    return invalid("config.densitySchedule, densityScheduleCount and scheduleSteps belong together");
  if (config.densitySchedule == nullptr) return {};
  if (config.densityScheduleCount > kMostScheduled)
    return unsupported("config.densityScheduleCount is {}, at most {}", config.densityScheduleCount, kMostScheduled);
  SC_TRY(checkedMul(config.densityScheduleCount, config.scheduleSteps));
  spec.densitySchedule.assign(config.densitySchedule, config.densitySchedule + config.densityScheduleCount);
  spec.scheduleSteps = config.scheduleSteps;
  for (size_t s = 0; s < spec.densitySchedule.size(); ++s)
    if (!(spec.densitySchedule[s] > 0 && spec.densitySchedule[s] <= 1))
      return invalid("config.densitySchedule[{}] is {}", s, spec.densitySchedule[s]);
  const double most = *std::max_element(spec.densitySchedule.begin(), spec.densitySchedule.end());
  if (spec.maxDensity != 0 && spec.maxDensity < most)
    return invalid("config.maxDensity {} is below the schedule's {}", spec.maxDensity, most);
  return {};
}

// Auto has no trials here (AutoReducer): the method is chosen once.
Status resolveSelector(ReducerSpec& spec, const sparsecollReducerConfig_t& config) {
  const bool chooses = spec.params.selector == sparsecollSelectAuto;
  if (chooses && spec.params.collective != sparsecollCollAuto)
    return invalid("params.selector is auto, which takes its own collective, and params.collective {}",
                   collectiveName(spec.params.collective));
  if (config.plan != nullptr || config.planCount != 0) {
    if (!chooses) return invalid("config.plan for a method that is named");
    return unsupported("config.plan where auto chooses once: on devices, transactional, or selecting nothing");
  }
  if (chooses) spec.params.selector = sparsecollSelectTopK;
  return {};
}

Status resolveCollective(ReducerSpec& spec, bool transactional) {
  int32_t id = spec.params.collective;
  if (id == sparsecollCollHierarchical) {
    spec.overNodes = true;
    id = spec.params.betweenNodes;
    if (id == sparsecollCollHierarchical) return unsupported("params.betweenNodes is Hierarchical: nodes of nodes");
  }
  if (id == sparsecollCollAuto) {
    const bool nothing = spec.has(SPARSECOLL_SELECT_NOTHING);
    const bool undoesVelocity = transactional && spec.params.momentum != 0;
    const bool dense = !nothing && !undoesVelocity && (spec.n < kDenseBelow || densityOf(spec) > kDenseAbove);
    id = dense ? sparsecollCollDense : spec.selector->collective;
    spec.reason = dense            ? "auto: dense below 65536 elements or above density 0.25"
                  : undoesVelocity ? "auto: the selector's collective; dense is not transactional"
                                   : "auto: the selector's collective";
  } else {
    spec.reason = "as asked";
  }
  SC_TRY(spec.collective, findCollective(id));
  (spec.overNodes ? spec.params.betweenNodes : spec.params.collective) = spec.collective->id;
  if ((spec.collective->blocks && !spec.selector->blocks) ||
      (!spec.collective->facts && spec.selector->densityIsGlobal))
    return unsupported("collective {} does not go with selector {}", spec.collective->name, spec.selector->name);
  return {};
}

// What a shard's owner would have to know of the others', or does not have.
Status checkOverNodes(const ReducerSpec& spec) {
  if (!spec.overNodes) return {};
  constexpr const char* kWhat = "with collective hierarchical";
  if (spec.has(SPARSECOLL_ACCUMULATE)) return unsupported("SPARSECOLL_ACCUMULATE {}", kWhat);
  if (spec.has(SPARSECOLL_AVERAGE_CONTRIBUTORS)) return unsupported("SPARSECOLL_AVERAGE_CONTRIBUTORS {}", kWhat);
  if (spec.buffer != nullptr) return unsupported("config.buffer {}", kWhat);
  if (spec.velocity != nullptr) return unsupported("config.velocity {}", kWhat);
  return {};
}

Status checkCallersMemory(const sparsecollReducerConfig_t& config, const ReducerSpec& spec) {
  const uint64_t element = elementBytes(spec.accumulateType);
  SC_TRY(checkPointer("config.buffer", config.buffer, element));
  SC_TRY(checkPointer("config.velocity", config.velocity, element));
  if (config.velocity == nullptr) return {};
  if (spec.params.momentum == 0) return invalid("config.velocity for a method without momentum");
  const uint64_t bytes = config.buffer == nullptr ? 0 : spec.n * element * (config.transactional == 1 ? 2 : 1);
  return checkDisjoint("config.buffer", config.buffer, bytes, "config.velocity", config.velocity, bytes);
}

}  // namespace

Status checkInputShape(const ReducerSpec& spec) {
  if (shapesResidual(spec.params) && spec.has(SPARSECOLL_NO_RESIDUAL))
    return invalid("params.momentum or params.residualDecay for a method without a residual");
  return {};
}

Result<ReducerSpec> readReducerSpec(uint64_t n, int32_t type, const sparsecollParams_t* params,
                                    const sparsecollReducerConfig_t* userConfig) {
  ReducerSpec spec;
  SC_TRY(const sparsecollReducerConfig_t config, readStructOr(userConfig, "config"));
  if (!isElementType(type)) return invalid("type is {}", type);
  if (n == 0) return invalid("n is 0");
  if (n > kMaxReducerLength)
    return unsupported("n is {}, this version reduces at most {} elements", n, kMaxReducerLength);
  spec.n = n;
  spec.type = static_cast<sparsecollDataType_t>(type);
  spec.accumulateType = accumulateTypeOf(spec.type);
  SC_TRY(spec.params, readParams(params));
  SC_TRY(resolveSelector(spec, config));
  SC_TRY(spec.selector, findSelector(spec.params));
  const bool hierarchical = spec.params.collective == sparsecollCollHierarchical;
  const int32_t asked = hierarchical ? spec.params.betweenNodes : spec.params.collective;
  const bool autoResolved = asked == sparsecollCollAuto;
  if (asked != sparsecollCollDense) SC_TRY(checkDensity(spec.params));
  SC_TRY(resolveCollective(spec, config.transactional == 1));
  SC_TRY(checkInputShape(spec));
  if (spec.has(SPARSECOLL_AVERAGE_CONTRIBUTORS) && spec.collective->contributors == Contributors::kUnknown)
    return unsupported("collective {} cannot tell how many ranks are in an entry", spec.collective->name);

  if (config.accumulateType != 0 && !isElementType(config.accumulateType))
    return invalid("config.accumulateType is {}", config.accumulateType);
  SC_TRY(checkFactor("params.inputScale", spec.params.inputScale, spec.accumulateType));
  SC_TRY(checkFactor("params.outputScale", spec.params.outputScale, spec.accumulateType));
  if (config.accumulateType != 0 && config.accumulateType != spec.accumulateType)
    return unsupported("accumulate type {} for gradients of type {}", dataTypeName(config.accumulateType),
                       dataTypeName(type));
  if (config.transactional != 0 && config.transactional != 1)
    return invalid("config.transactional is {}", config.transactional);
  if (!(config.maxDensity >= 0 && config.maxDensity <= 1)) return invalid("config.maxDensity is {}", config.maxDensity);
  if (config.maxDensity != 0 && config.maxDensity < densityOf(spec))
    return invalid("config.maxDensity {} is below the density {}", config.maxDensity, densityOf(spec));
  SC_TRY(checkCallersMemory(config, spec));
  spec.transactional = config.transactional != 0;
  spec.maxDensity = config.maxDensity;
  spec.buffer = config.buffer;
  spec.velocity = config.velocity;
  SC_TRY(readSchedule(config, spec));
  if (spec.dense() && spec.scheduleSteps != 0) {
    if (!autoResolved) return unsupported("the dense collective has no density to schedule");
    spec.densitySchedule.clear();
    spec.scheduleSteps = 0;
  }
  if (!spec.keepsResidual() && (spec.buffer != nullptr || spec.transactional)) {
    // Whoever leaves the collective to us does not know that the choice needs no residual.
    if (!autoResolved) return invalid("config.buffer or transactional for a method without a residual");
    spec.buffer = nullptr;
    spec.transactional = false;
  }
  SC_TRY(readSegments(config, spec));
  SC_TRY(checkOverNodes(spec));
  return spec;
}

Status checkVectors(const ReducerSpec& spec, uint64_t n, const void* gradient, const void* out) {
  const uint64_t element = elementBytes(spec.type);
  const uint64_t bytes = n * element;
  if (gradient == nullptr) return invalid("gradient is NULL");
  if (out == nullptr) return invalid("out is NULL");
  SC_TRY(checkPointer("gradient", gradient, element));
  SC_TRY(checkPointer("out", out, element));
  SC_TRY(checkPair("gradient", gradient, "out", out, bytes));
  if (spec.has(SPARSECOLL_OUT_PRESERVED) && gradient == out)
    return invalid("out is the gradient, so SPARSECOLL_OUT_PRESERVED cannot hold");
  return {};
}

}  // namespace sparsecoll
