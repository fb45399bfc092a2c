// The element types as this program sees them: written without the library's own conversions, which it checks.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include "sparsecoll/sparsecoll.h"

namespace bench {

struct Half {
  uint16_t bits;
};
struct Bfloat {
  uint16_t bits;
};

struct ElementType {
  sparsecollDataType_t type;
  uint64_t bytes;
  uint64_t accumulateBytes;  // of an entry of the residual
  double exactIntegers;      // all integers up to it have a representation
  const char* alias;         // as nccl-tests call it

  const char* name() const { return sparsecollDataTypeName(type); }
};

std::string elementTypeNames();  // for a line of text
const ElementType& elementType(const std::string& name);

// Round to nearest, ties to even.
template <class T>
T fromDouble(double x) {
  return static_cast<T>(x);
}
template <>
Half fromDouble<Half>(double x);
template <>
Bfloat fromDouble<Bfloat>(double x);

template <class T>
double toDouble(T x) {
  return x;
}
template <>
double toDouble<Half>(Half x);
template <>
double toDouble<Bfloat>(Bfloat x);

// Calls f with an element of the named type.
template <class F>
decltype(auto) withElement(sparsecollDataType_t type, F&& f) {
  switch (type) {
    case sparsecollFloat16:
      return f(Half{});
    case sparsecollBfloat16:
      return f(Bfloat{});
    case sparsecollFloat64:
      return f(double{});
    default:
      return f(float{});
  }
}

}  // namespace bench
