#include "src/pointer_checks.h"

namespace sparsecoll {

Status checkPointer(const char* name, const void* pointer, uint64_t alignment) {
  if (reinterpret_cast<uintptr_t>(pointer) % alignment != 0)
    return invalid("{} is not aligned to its element of {} bytes", name, alignment);
  return {};
}

Status checkDisjoint(const char* aName, const void* a, uint64_t aBytes, const char* bName, const void* b,
                     uint64_t bBytes) {
  const auto first = reinterpret_cast<uintptr_t>(a);
  const auto second = reinterpret_cast<uintptr_t>(b);
  if (first < second + bBytes && second < first + aBytes) return invalid("{} and {} overlap", aName, bName);
  return {};
}

Status checkPair(const char* aName, const void* a, const char* bName, const void* b, uint64_t bytes) {
  if (a == b) return {};
  return checkDisjoint(aName, a, bytes, bName, b, bytes);
}

}  // namespace sparsecoll
