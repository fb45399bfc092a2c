// Checked arithmetic for sizes that come from callers or from the wire.
#pragma once

#include <cstdint>

#include "core/status.h"

namespace sparsecoll {

#if SC_FORMATS
inline Result<uint64_t> checkedMul(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return invalid("size {} * {} does not fit in 64 bits", a, b);
  return product;
}

inline Result<uint64_t> checkedAdd(uint64_t a, uint64_t b) {
  uint64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return invalid("size {} + {} does not fit in 64 bits", a, b);
  return sum;
}
#endif

constexpr uint64_t alignUp(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

}  // namespace sparsecoll
