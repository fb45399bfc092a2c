#include "src/params.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>

#include "core/limits.h"
#include "src/names.h"
#include "src/structs.h"

namespace sparsecoll {

namespace {

enum class Kind { kEnum, kRange, kFlags, kUnsigned, kReal };

struct Field {
  const char* name;
  Kind kind;
  size_t offset;
  const char* (*nameOf)(int32_t) = nullptr;  // enumerations
  double least = 0;                          // ranges and reals
  double most = 0;
};

constexpr double kHuge = std::numeric_limits<double>::max();
constexpr double kBelowOne = 1 - std::numeric_limits<double>::epsilon() / 2;

#define SC_ENUM(field, nameOf) \
  Field { #field, Kind::kEnum, offsetof(sparsecollParams_t, field), nameOf }
#define SC_RANGE(field, low, high) \
  Field { #field, Kind::kRange, offsetof(sparsecollParams_t, field), nullptr, low, high }
#define SC_REAL(field, low, high) \
  Field { #field, Kind::kReal, offsetof(sparsecollParams_t, field), nullptr, low, high }
#define SC_UNSIGNED(field) \
  Field { #field, Kind::kUnsigned, offsetof(sparsecollParams_t, field) }

constexpr Field kFields[] = {
    SC_ENUM(selector, selectorName),
    SC_ENUM(collective, collectiveName),
    SC_RANGE(faithful, 0, 2),
    SC_ENUM(op, opName),
    SC_ENUM(wire, wireName),
    Field{"flags", Kind::kFlags, offsetof(sparsecollParams_t, flags)},
    SC_REAL(density, 0, 1),
    SC_UNSIGNED(k),
    SC_REAL(threshold, 0, kHuge),
    SC_REAL(inputScale, -kHuge, kHuge),
    SC_REAL(outputScale, -kHuge, kHuge),
    SC_UNSIGNED(seed),
    SC_UNSIGNED(tag),
    SC_ENUM(distribution, distributionName),
    SC_RANGE(teams, 0, kMaxRanks),
    SC_ENUM(teamGather, teamGatherName),
    SC_RANGE(chunk, 0, 65536),
    SC_REAL(momentum, 0, kBelowOne),
    SC_REAL(clipNorm, 0, kHuge),
    SC_REAL(residualDecay, 0, 1),
    SC_UNSIGNED(candidates),
    SC_ENUM(betweenNodes, collectiveName),
};

template <class T>
T valueAt(const sparsecollParams_t& params, const Field& field) {
  T value;
  std::memcpy(&value, reinterpret_cast<const std::byte*>(&params) + field.offset, sizeof value);
  return value;
}

Status checkField(const sparsecollParams_t& params, const Field& field) {
  switch (field.kind) {
    case Kind::kEnum: {
      const auto value = valueAt<int32_t>(params, field);
      if (field.nameOf(value) == nullptr) return invalid("params.{} is {}", field.name, value);
      return {};
    }
    case Kind::kRange: {
      const auto value = valueAt<int32_t>(params, field);
      if (value < field.least || value > field.most) return invalid("params.{} is {}", field.name, value);
      return {};
    }
    case Kind::kFlags: {
      const auto value = valueAt<uint32_t>(params, field);
      if ((value & ~kKnownFlags) != 0) return invalid("params.flags has unknown bits {:#x}", value & ~kKnownFlags);
      return {};
    }
    case Kind::kReal: {
      const auto value = valueAt<double>(params, field);
      if (!(value >= field.least && value <= field.most))
        return invalid("params.{} is {}, allowed are {} to {}", field.name, value, field.least, field.most);
      return {};
    }
    case Kind::kUnsigned:
      return {};
  }
  return {};
}

uint64_t bitsOf(const sparsecollParams_t& params, const Field& field) {
  if (field.kind == Kind::kUnsigned || field.kind == Kind::kReal) return valueAt<uint64_t>(params, field);
  return valueAt<uint32_t>(params, field);
}

Shown shownAs(Kind kind) {
  switch (kind) {
    case Kind::kEnum:
      return Shown::kName;
    case Kind::kFlags:
      return Shown::kFlags;
    case Kind::kReal:
      return Shown::kReal;
    case Kind::kRange:
    case Kind::kUnsigned:
      return Shown::kNumber;
  }
  return Shown::kNumber;
}

bool has(const sparsecollParams_t& params, uint32_t flag) { return (params.flags & flag) != 0; }

}  // namespace

Result<sparsecollParams_t> readParams(const sparsecollParams_t* user) {
  SC_TRY(sparsecollParams_t params, readStruct(user, "params"));
  for (const Field& field : kFields) SC_TRY(checkField(params, field));
  if (params.reserved0 != 0) return unsupported("params.reserved0 is not 0");
  if (params.wire != sparsecollWireDefault && params.wire != sparsecollWireSame)
    return unsupported("params.wire {} is not in this version: values travel in the accumulate type",
                       wireName(params.wire));
  if (has(params, SPARSECOLL_ACCUMULATE) && has(params, SPARSECOLL_OUT_PRESERVED))
    return invalid("SPARSECOLL_ACCUMULATE and SPARSECOLL_OUT_PRESERVED exclude each other");
  if (params.momentum == 0 && (has(params, SPARSECOLL_MOMENTUM_KEPT) || has(params, SPARSECOLL_NESTEROV)))
    return invalid("SPARSECOLL_MOMENTUM_KEPT and SPARSECOLL_NESTEROV need params.momentum");
  if (params.op != sparsecollAvg && has(params, SPARSECOLL_AVERAGE_CONTRIBUTORS))
    return invalid("SPARSECOLL_AVERAGE_CONTRIBUTORS needs params.op to be an average");
  params.wire = sparsecollWireSame;
  if (params.distribution == sparsecollDistributionDefault) params.distribution = sparsecollDistributionPareto;
  if (params.selector == sparsecollSelectDefault) params.selector = sparsecollSelectTopK;
  if (params.inputScale == 0) params.inputScale = 1;
  if (params.outputScale == 0) params.outputScale = 1;
  if (params.residualDecay == 0) params.residualDecay = 1;
  return params;
}

Status checkDensity(const sparsecollParams_t& params) {
  if (params.density != 0 && params.k != 0) return invalid("give params.density or params.k, not both");
  const bool nothing = params.density == 0 && params.k == 0;
  if (nothing && !has(params, SPARSECOLL_SELECT_NOTHING))
    return invalid("params.density and params.k are 0 (SPARSECOLL_SELECT_NOTHING asks for that on purpose)");
  if (!nothing && has(params, SPARSECOLL_SELECT_NOTHING))
    return invalid("SPARSECOLL_SELECT_NOTHING needs params.density and params.k to be 0");
  return {};
}

bool shapesResidual(const sparsecollParams_t& params) { return params.momentum != 0 || params.residualDecay != 1; }
bool shapesInput(const sparsecollParams_t& params) { return params.clipNorm != 0 || shapesResidual(params); }

AgreedFields agreedFields(const sparsecollParams_t& params) {
  AgreedFields fields;
  for (const Field& field : kFields)
    fields.push_back({field.name, bitsOf(params, field), shownAs(field.kind), field.nameOf});
  return fields;
}

}  // namespace sparsecoll
