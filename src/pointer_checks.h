// What callers' pointers have to be.
#pragma once

#include <cstdint>

#include "core/status.h"

namespace sparsecoll {

// Element-aligned. Errors: InvalidArgument.
Status checkPointer(const char* name, const void* pointer, uint64_t alignment);
// No byte in common. Errors: InvalidArgument.
Status checkDisjoint(const char* aName, const void* a, uint64_t aBytes, const char* bName, const void* b,
                     uint64_t bBytes);
// Equal or disjoint. Errors: InvalidArgument.
Status checkPair(const char* aName, const void* a, const char* bName, const void* b, uint64_t bytes);

}  // namespace sparsecoll
