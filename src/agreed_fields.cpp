#include "src/agreed_fields.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <bit>
#include <cstring>

#include "selectors/selection.h"
#include "src/communicator.h"
#include "src/names.h"
#include "src/reducer_spec.h"
#include "src/scales.h"

namespace sparsecoll {

namespace {

AgreedField real(const char* name, double value) { return {name, std::bit_cast<uint64_t>(value), Shown::kReal}; }

AgreedField named(const char* name, int32_t value, const char* (*nameOf)(int32_t)) {
  return {name, static_cast<uint32_t>(value), Shown::kName, nameOf};
}

AgreedField hashed(const char* name, uint64_t hash) { return {name, hash, Shown::kHash}; }

uint64_t hashOfSegments(std::span<const sparsecollSegment_t> segments) {
  uint64_t hash = segments.size();
  for (const sparsecollSegment_t& segment : segments) {
    const AgreedField parts[] = {
        {"length", segment.length}, real("density", segment.density), {"dense", static_cast<uint32_t>(segment.dense)}};
    hash = hash * 31 + hashOf("segment", parts);
  }
  return hash;
}

uint64_t hashOfSchedule(std::span<const double> schedule) {
  AgreedFields densities;
  for (const double density : schedule) densities.push_back(real("density", density));
  return hashOf("schedule", densities);
}

}  // namespace

uint64_t hashOf(const char* what, std::span<const AgreedField> fields) {
  uint64_t hash = XXH3_64bits(what, std::strlen(what));
  for (const AgreedField& field : fields) {
    hash = XXH3_64bits_withSeed(field.name, std::strlen(field.name), hash);
    hash = XXH3_64bits_withSeed(&field.bits, sizeof field.bits, hash);
  }
  return hash;
}

// Of ranks with heartbeats one with less patience than the others' pause between two would lose them all.
AgreedFields agreedOfCommunicator(const CommunicatorConfig& config, bool onHost, const Transport& transport) {
  const bool hasHeartbeats = transport.kind() == sparsecollTransportUcx || transport.kind() == sparsecollTransportTcp;
  return {{"version", SPARSECOLL_VERSION_CODE},
          named("backend", onHost ? sparsecollBackendHost : sparsecollBackendCuda, backendName),
          named("nonFinite", config.nonFinite, nonFiniteName),
          {"ranksPerNode", static_cast<uint32_t>(config.ranksPerNode)},
          {"silenceMs", hasHeartbeats ? config.silenceMs : 0},
          {"iallreduce", transport.sumsItself() ? 1u : 0u}};
}

AgreedFields agreedOfReducer(const ReducerSpec& spec) {
  AgreedFields fields = {{"n", spec.n}, named("type", spec.type, dataTypeName)};
  const AgreedFields params = agreedFields(spec.params);
  fields.insert(fields.end(), params.begin(), params.end());
  const AgreedField config[] = {hashed("segments", hashOfSegments(spec.segments)),
                                hashed("densitySchedule", hashOfSchedule(spec.densitySchedule)),
                                {"scheduleSteps", spec.scheduleSteps},
                                real("maxDensity", spec.maxDensity),
                                {"transactional", spec.transactional ? 1u : 0u}};
  fields.insert(fields.end(), std::begin(config), std::end(config));
  return fields;
}

// Two densities may give one k in all and yet another one in a tensor.
uint64_t agreedOfStep(uint64_t plan, const Selection* selection, uint64_t iteration, const ScalePair& scales) {
  const AgreedField parts[] = {{"plan", plan},
                               {"iteration", iteration},
                               {"k", selection != nullptr ? selection->k() : 0},
                               real("density", selection != nullptr ? selection->density() : 1),
                               real("inputScale", scales.in),
                               real("outputScale", scales.out)};
  return hashOf("step", parts);
}

uint64_t agreedOfStep(uint64_t plan, double density, uint64_t iteration, const ScalePair& scales) {
  const AgreedField parts[] = {{"plan", plan},
                               {"iteration", iteration},
                               real("density", density),
                               real("inputScale", scales.in),
                               real("outputScale", scales.out)};
  return hashOf("step over nodes", parts);
}

AgreedFields agreedOfNothing() { return {{"n", 0}}; }

AgreedFields agreedOfVector(const sparsecollVector_t& in) {
  return {{"n", in.length}, named("type", in.dataType, dataTypeName)};
}

AgreedFields agreedOfSum(const sparsecollVector_t& in, const sparsecollParams_t& params) {
  AgreedFields fields = agreedOfVector(in);
  const AgreedField further[] = {
      named("op", params.op, opName), real("outputScale", params.outputScale), {"tag", params.tag}};
  fields.insert(fields.end(), std::begin(further), std::end(further));
  return fields;
}

AgreedFields agreedOfParts(const sparsecollVector_t& in, std::span<const uint64_t> bounds) {
  AgreedFields cuts;
  for (const uint64_t bound : bounds) cuts.push_back({"bound", bound});
  AgreedFields fields = agreedOfVector(in);
  fields.push_back(hashed("bounds", hashOf("bounds", cuts)));
  return fields;
}

}  // namespace sparsecoll
