// The names of the values of the C ABI's enumerations. nullptr: the enumeration has no such value.
#pragma once

#include <cstdint>

#include "core/status.h"

namespace sparsecoll {

const char* resultName(int32_t result);
const char* dataTypeName(int32_t type);
const char* opName(int32_t op);
const char* wireName(int32_t wire);
const char* indexTypeName(int32_t type);
const char* backendName(int32_t backend);
const char* transportName(int32_t transport);
const char* collectiveName(int32_t collective);
const char* selectorName(int32_t selector);
const char* distributionName(int32_t distribution);
const char* teamGatherName(int32_t gather);
const char* nonFiniteName(int32_t nonFinite);
const char* securityName(int32_t security);

// Of one bit of params.flags, without its prefix: "ACCUMULATE".
const char* flagName(uint32_t flag);

// field: of a struct, in the words of its caller. Errors: InvalidArgument (no value of the enumeration).
Status checkEnum(const char* field, int32_t value, const char* (*nameOf)(int32_t));

}  // namespace sparsecoll
